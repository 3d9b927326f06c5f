import { smooth } from '../estimate/ewma.ts'
import { MonotoneCurve } from '../estimate/monotone-curve.ts'

/** The cloud as HAT's decisions see it: what a step holds and how long it takes. HAT 'State monitoring'. */
export class StateMonitor {
  /** g of Eq. 2. */
  readonly g = new MonotoneCurve()
  #batchTokens: number | undefined

  /** μ_t = α·μ_{t−1} + (1 − α)·μ̂_t (Eq. 1); 0 before the first step. */
  get batchTokens(): number {
    return this.#batchTokens ?? 0
  }

  /** A step of so many tokens took so long, all stages of the pipeline included. The delay is of that batch, not of the smoothed one. */
  record(tokens: number, delayS: number): void {
    this.g.record(tokens, delayS)
    this.#batchTokens = smooth(this.#batchTokens, tokens)
  }
}
