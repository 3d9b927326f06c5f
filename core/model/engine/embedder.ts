import { fromStates, type States } from '../../wire/protocol/states.ts'
import { encoder, type Pooling, slotCounts } from '../bundle/manifest.ts'
import type { Part, Sequence } from './contract.ts'
import type { LoadedModel } from './open-model.ts'
import { SerialQueue } from './serial-queue.ts'

/** Texts that one step reads from, and rows of them all together. */
const maxTexts = Math.max(...slotCounts)
const maxRows = 256

interface Reading {
  readonly ids: readonly number[]
  readonly sequence: Sequence
  /** Sum of the rows' states, or the last one. */
  readonly pooled: Float64Array
}

/** Embeds texts with the part `encoder` of a bundle. Requests take turns, several texts at a time. */
export class Embedder {
  /** Values of an embedding. */
  readonly width: number
  readonly #part: Part
  readonly #pooling: Pooling
  readonly #queue = new SerialQueue()

  /** @throws BrimError BUNDLE_INVALID if the part is not loaded */
  constructor(model: LoadedModel) {
    this.#part = model.part(encoder)
    this.#pooling = this.#part.manifest.pooling ?? 'last'
    this.width = model.manifest.dims.hidden
  }

  /**
   * @param texts token ids, of each at least one and at most the context's
   * @returns for each a vector of length 1, [width]
   * @throws BrimError RUNTIME_FAILED, OUT_OF_MEMORY; the signal's reason, between steps
   */
  async embed(texts: readonly (readonly number[])[], signal: AbortSignal): Promise<Float32Array[]> {
    const embeddings: Float32Array[] = []
    for (let from = 0; from < texts.length; from += maxTexts) {
      const group = texts.slice(from, from + maxTexts)
      embeddings.push(...(await this.#queue.run(() => this.#read(group, signal))))
    }
    return embeddings
  }

  async #read(texts: readonly (readonly number[])[], signal: AbortSignal): Promise<Float32Array[]> {
    signal.throwIfAborted()
    const readings = texts.map((ids) => ({ ids, sequence: this.#part.createSequence(), pooled: new Float64Array(this.width) }))
    try {
      for (
        let open: Reading[] = readings;
        open.length > 0;
        open = open.filter(({ ids, sequence }) => sequence.length < ids.length)
      ) {
        signal.throwIfAborted()
        await this.#step(open)
      }
      return readings.map(({ pooled }) => unitVector(pooled))
    } finally {
      for (const { sequence } of readings) sequence.release()
    }
  }

  async #step(open: readonly Reading[]): Promise<void> {
    const share = Math.max(1, Math.floor(maxRows / open.length))
    const items = open.map(({ ids, sequence }) => {
      const next = ids.slice(sequence.length, sequence.length + share)
      const isLast = sequence.length + next.length === ids.length
      const select = this.#pooling === 'mean' ? ('all' as const) : isLast ? ('last' as const) : ('none' as const)
      return { sequence, ids: next, select }
    })
    const returned = await this.#part.step(items)
    for (const [at, states] of returned.entries()) addRows(open[at]!.pooled, states)
  }
}

function addRows(pooled: Float64Array, states: States): void {
  const values = fromStates(states)
  for (let at = 0; at < values.length; at++) pooled[at % states.width]! += values[at]!
}

/** The mean and the sum have the same direction. A vector of zeros stays as it is. */
export function unitVector(values: ArrayLike<number>): Float32Array {
  let squares = 0
  for (let at = 0; at < values.length; at++) squares += values[at]! ** 2
  const length = Math.sqrt(squares) || 1
  return Float32Array.from({ length: values.length }, (_, at) => values[at]! / length)
}
