import { defaultAlpha, Ewma } from './ewma.ts'
import { MonotoneCurve } from './monotone-curve.ts'

/** The cloud's state as HAT's decisions read it (HAT 'State monitoring', Eq. 1 and 2). Mutable. */
export class StateMonitor {
  /**
   * g of Eq. 2: predicted seconds of a cloud step by its tokens. The paper smooths one number; the delay depends on the
   * tokens, so we keep a curve.
   */
  readonly g: MonotoneCurve
  readonly #batchTokens: Ewma

  /** @param alpha α of Eq. 1 and 2, 0..1 */
  constructor(alpha = defaultAlpha) {
    this.g = new MonotoneCurve(alpha)
    this.#batchTokens = new Ewma(alpha)
  }

  /** μ of Eq. 1: smoothed tokens per cloud step; 0 before the first step. */
  get batchTokens(): number {
    return this.#batchTokens.value ?? 0
  }

  /** @param delayS measured seconds of the step, through all stages of the pipeline */
  record(tokens: number, delayS: number): void {
    // The delay belongs to this batch, not to the smoothed one.
    this.g.record(tokens, delayS)
    this.#batchTokens.record(tokens)
  }
}
