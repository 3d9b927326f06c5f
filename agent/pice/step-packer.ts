import { BrimError } from '../../core/base/errors.ts'
import type { Chain, Sequence } from '../../core/engine/contract.ts'
import { slotCounts } from '../../core/model/manifest.ts'

/** Sequences of one packed step. */
export const maxPackedSequences = Math.max(...slotCounts)

type Item = Parameters<Chain['step']>[0][number]

interface WaitingStep {
  readonly item: Item
  resolve(logits: Float32Array): void
  reject(error: unknown): void
}

/** Packs steps of different sequences into one: streams that go on at the same time share the cost of reading the weights. */
export class StepPacker {
  readonly #chain: Chain
  readonly #signal: AbortSignal
  #waiting: WaitingStep[] = []
  #isActive = false
  #steps = 0
  #items = 0

  /** @param signal when aborted, no further step is started */
  constructor(chain: Chain, signal: AbortSignal) {
    this.#chain = chain
    this.#signal = signal
  }

  /** Sequences of a step, on average. */
  get parallel(): number {
    return this.#steps === 0 ? 1 : this.#items / this.#steps
  }

  /**
   * One step of this sequence, with whichever others ask for one until it begins.
   * @returns logits of the last row if it is selected, valid until the next step of any sequence
   * @throws BrimError CANCELED, and as the chain's step
   */
  step(sequence: Sequence, ids: readonly number[], select: 'last' | 'none'): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item: { sequence, ids, select }, resolve, reject })
      if (this.#isActive) return
      this.#isActive = true
      void this.#run()
    })
  }

  async #run(): Promise<void> {
    for (;;) {
      // Streams that the last step has resumed ask for their next one before this.
      await new Promise((resolve) => setImmediate(resolve))
      const batch = this.#waiting.splice(0, maxPackedSequences)
      if (batch.length === 0) break
      await this.#runBatch(batch)
    }
    this.#isActive = false
  }

  async #runBatch(batch: readonly WaitingStep[]): Promise<void> {
    const { vocab } = this.#chain.manifest.dims
    try {
      if (this.#signal.aborted) throw new BrimError('CANCELED', 'the expansion was canceled')
      this.#steps += 1
      this.#items += batch.length
      const logits = await this.#chain.step(batch.map(({ item }) => item))
      let row = 0
      for (const { item, resolve } of batch) {
        const rows = item.select === 'last' ? 1 : 0
        resolve(logits.subarray(row * vocab, (row + rows) * vocab))
        row += rows
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}
