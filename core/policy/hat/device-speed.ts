import { smooth } from '../estimate/ewma.ts'

/** A few tokens say more of what a step costs than of what a token does. */
const leastTokens = 8

/** A step counts as no longer than so many times what steps took before: one hiccup says nothing of the next. */
const hiccup = 4

/** What a device's own steps take: measured from real ones, smoothed. HAT 'State monitoring'. */
export class DeviceSpeed {
  #prefillTokensPerS: number | undefined
  #draftStepS: number | undefined
  #aheadStepS: number | undefined

  /** Tokens of a prompt per second through the input part; undefined before the first chunk. */
  get prefillTokensPerS(): number | undefined {
    return this.#prefillTokensPerS
  }

  /** γ: seconds per drafting step; undefined before the first. */
  get draftStepS(): number | undefined {
    return this.#draftStepS
  }

  /** γ_c: seconds per step of drafting ahead, all branches together; undefined before the first. */
  get aheadStepS(): number | undefined {
    return this.#aheadStepS
  }

  prefilled(tokens: number, seconds: number): void {
    if (tokens >= leastTokens && seconds > 0) this.#prefillTokensPerS = smooth(this.#prefillTokensPerS, tokens / seconds)
  }

  drafted(steps: number, seconds: number): void {
    if (steps > 0 && seconds >= 0) this.#draftStepS = smooth(this.#draftStepS, seconds / steps)
  }

  /** One step. */
  draftedAhead(seconds: number): void {
    this.#aheadStepS = smooth(this.#aheadStepS, Math.min(seconds, (this.#aheadStepS ?? seconds) * hiccup))
  }
}
