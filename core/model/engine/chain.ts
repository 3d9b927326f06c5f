import { concatStates } from '../../wire/protocol/states.ts'
import { graphOutputs } from '../bundle/graph-io.ts'
import type { Manifest } from '../bundle/manifest.ts'
import type { AttentionPart } from './attention-part.ts'
import type { Chain, Head, Sequence } from './contract.ts'
import type { StatesPart } from './part.ts'
import { StackedSequence } from './stacked-sequence.ts'
import type { Cut } from './states-tensors.ts'

type ChainItem = Parameters<Chain['step']>[0][number]

/** The whole model as one part. */
export class WholeChain implements Chain {
  readonly manifest: Manifest
  readonly #whole: AttentionPart

  constructor(manifest: Manifest, whole: AttentionPart) {
    this.manifest = manifest
    this.#whole = whole
  }

  createSequence(): Sequence {
    return this.#whole.createSequence()
  }

  step(items: readonly ChainItem[]): Promise<Float32Array> {
    const { vocab } = this.manifest.dims
    return this.#whole.step(items, (rows) => {
      const logits = new Float32Array(rows * vocab)
      const tensor = this.#whole.runtime.tensor('float32', [1, rows, vocab], logits)
      return {
        tensors: new Map([[graphOutputs.logits, tensor]]),
        finish: (returned) => logits.subarray(0, (returned.at(-1)?.[1] ?? 0) * vocab),
      }
    })
  }
}

/** The whole model as input → middle → output, with `cuts` applied where the wire would be. */
export class SplitChain implements Chain {
  readonly manifest: Manifest
  readonly #input: StatesPart
  readonly #middle: StatesPart
  readonly #head: Head
  readonly #cuts: Cut

  constructor(manifest: Manifest, parts: { input: StatesPart; middle: StatesPart; head: Head }, cuts: Cut) {
    this.manifest = manifest
    this.#input = parts.input
    this.#middle = parts.middle
    this.#head = parts.head
    this.#cuts = cuts
  }

  createSequence(): Sequence {
    return new StackedSequence([this.#input.createSequence(), this.#middle.createSequence()])
  }

  async step(items: readonly ChainItem[]): Promise<Float32Array> {
    const sequences = items.map(({ sequence }) => sequence)
    const deep = await StackedSequence.step(sequences, 'a chain', async (stacks) => {
      const shallow = await this.#input.run(
        items.map(({ ids }, at) => ({ sequence: stacks[at]!.parts[0]!, ids, select: 'all' })),
        this.#cuts,
      )
      return this.#middle.run(
        items.map(({ select }, at) => ({ sequence: stacks[at]!.parts[1]!, states: shallow[at]!, select })),
        this.#cuts,
      )
    })
    const rows = concatStates(deep, this.manifest.dims.hidden)
    return rows.rows === 0 ? new Float32Array(0) : this.#head.logits(rows)
  }
}
