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

  async step(items: readonly ChainItem[]): Promise<Float32Array> {
    const { vocab } = this.manifest.dims
    const outputs = (rows: number) => {
      const logits = new Float32Array(rows * vocab)
      const tensor = this.#whole.runtime.tensor('float32', [1, rows, vocab], logits)
      return {
        tensors: new Map([[graphOutputs.logits, tensor]]),
        finish: (returned: readonly (readonly [from: number, to: number])[]) =>
          returned.map(([from, to]) => logits.subarray(from * vocab, to * vocab)),
      }
    }
    return joinRows(await this.#whole.step(items, outputs, joinRows))
  }
}

/** Rows that follow each other: those that lie so in memory already are not copied. */
function joinRows(pieces: readonly Float32Array<ArrayBuffer>[]): Float32Array<ArrayBuffer> {
  const [first] = pieces
  if (!first) return new Float32Array(0)
  const values = pieces.reduce((sum, { length }) => sum + length, 0)
  if (pieces.every(({ buffer }) => buffer === first.buffer)) return new Float32Array(first.buffer, first.byteOffset, values)
  const joined = new Float32Array(values)
  let at = 0
  for (const piece of pieces) {
    joined.set(piece, at)
    at += piece.length
  }
  return joined
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
