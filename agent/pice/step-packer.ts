import { BrimError } from '../../core/kit/base/errors.ts'
import { slotCounts } from '../../core/model/bundle/manifest.ts'
import type { Chain, Sequence } from '../../core/model/engine/contract.ts'
import { packSequences } from '../../core/policy/pice/pack-sequences.ts'

export const maxPackedSequences = Math.max(...slotCounts)

interface WaitingStep {
  readonly id: number
  readonly sequence: Sequence
  readonly ids: readonly number[]
  /** Of these, the last ones that no step has computed yet. */
  waitingRows: number
  readonly phase: 'prefill' | 'decode'
  readonly select: 'last' | 'none'
  resolve(logits: Float32Array): void
  reject(error: unknown): void
}

/** Packs steps of different sequences into one. */
export class StepPacker {
  readonly #chain: Chain
  readonly #signal: AbortSignal
  /** In the order in which they were asked for. */
  readonly #waiting = new Map<number, WaitingStep>()
  #asked = 0
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
   * Computes these tokens of the sequence, many of them in several steps, with whatever other sequences ask for.
   * @returns logits of the last row if it is selected, valid until the next step of any sequence
   * @throws BrimError CANCELED, and as the chain's step
   */
  step(sequence: Sequence, ids: readonly number[], select: 'last' | 'none'): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#asked += 1
      const phase = ids.length > 1 ? 'prefill' : 'decode'
      this.#waiting.set(this.#asked, { id: this.#asked, sequence, ids, waitingRows: ids.length, phase, select, resolve, reject })
      if (this.#isActive) return
      this.#isActive = true
      void this.#run()
    })
  }

  async #run(): Promise<void> {
    for (;;) {
      // Streams that the last step has resumed ask for their next one before this.
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#waiting.size === 0) break
      const plan = packSequences(this.#waiting.values(), maxPackedSequences)
      await this.#runStep(plan.map(({ stream, rows }) => ({ waiting: this.#waiting.get(stream)!, rows })))
    }
    this.#isActive = false
  }

  async #runStep(plan: readonly { readonly waiting: WaitingStep; readonly rows: number }[]): Promise<void> {
    const { vocab } = this.#chain.manifest.dims
    try {
      if (this.#signal.aborted) throw new BrimError('CANCELED', 'the expansion was canceled')
      this.#steps += 1
      this.#items += plan.length
      const items = plan.map(({ waiting: { sequence, ids, waitingRows, select }, rows }) => {
        if (rows === ids.length) return { sequence, ids, select }
        const from = ids.length - waitingRows
        return { sequence, ids: ids.slice(from, from + rows), select: rows === waitingRows ? select : 'none' } as const
      })
      const logits = await this.#chain.step(items)
      let row = 0
      for (const [at, { waiting, rows }] of plan.entries()) {
        const selected = items[at]!.select === 'last' ? 1 : 0
        waiting.waitingRows -= rows
        if (waiting.waitingRows === 0) {
          this.#waiting.delete(waiting.id)
          waiting.resolve(logits.subarray(row * vocab, (row + selected) * vocab))
        }
        row += selected
      }
    } catch (error) {
      for (const { waiting } of plan) {
        this.#waiting.delete(waiting.id)
        waiting.reject(error)
      }
    }
  }
}
