import { defaultAlpha, Ewma } from '../estimate/ewma.ts'

/** With fewer tokens a prefill measures the cost of a step, not of a token. */
const minPrefillTokens = 8
/** A step counts for at most this many times the average. */
const outlierCap = 4

/** How fast a device computes, smoothed over its real steps (HAT 'State monitoring'). Mutable. */
export class DeviceSpeed {
  readonly #alpha: number
  #prefillTokensPerS: Ewma
  #draftStepS: Ewma
  #aheadStepS: Ewma

  /** @param alpha weight of the past, 0..1; the paper gives none for γ */
  constructor(alpha = defaultAlpha) {
    this.#alpha = alpha
    this.#prefillTokensPerS = new Ewma(alpha)
    this.#draftStepS = new Ewma(alpha)
    this.#aheadStepS = new Ewma(alpha)
  }

  /** Tokens of a prompt per second; undefined before the first chunk. */
  get prefillTokensPerS(): number | undefined {
    return this.#prefillTokensPerS.value
  }

  /** γ: seconds per drafting step; undefined before the first. */
  get draftStepS(): number | undefined {
    return this.#draftStepS.value
  }

  /** γ_c: seconds per step of drafting ahead, all branches together; undefined before the first. */
  get aheadStepS(): number | undefined {
    return this.#aheadStepS.value
  }

  /** Another model computes from now on. */
  reset(): void {
    this.#prefillTokensPerS = new Ewma(this.#alpha)
    this.#draftStepS = new Ewma(this.#alpha)
    this.#aheadStepS = new Ewma(this.#alpha)
  }

  recordPrefill(tokens: number, seconds: number): void {
    if (tokens >= minPrefillTokens && seconds > 0) this.#prefillTokensPerS.record(tokens / seconds)
  }

  recordDraft(steps: number, seconds: number): void {
    if (steps > 0 && seconds >= 0) this.#draftStepS.record(seconds / steps)
  }

  recordAheadStep(seconds: number): void {
    this.#aheadStepS.record(seconds, outlierCap)
  }
}
