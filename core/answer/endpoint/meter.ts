import type { Clock } from '../../kit/base/clock.ts'
import { Ewma } from '../../policy/estimate/ewma.ts'

/** How fast one answer's model was. */
export interface AnswerSpeed {
  readonly model: string
  /** Mean time per token after the first; null below two tokens. */
  readonly tpotMs: number | null
  readonly tokens: number
}

/** Counts the answers in progress and measures how fast models decode. It sees how many tokens answers have, never which. */
export class AnswerMeter {
  readonly #clock: Clock
  readonly #decodeTokensPerS = new Map<string, Ewma>()
  #active = 0
  #busyMs = 0
  #busySinceMs = 0
  #tokens = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get active(): number {
    return this.#active
  }

  /** By model, for one answer at a time; four significant digits. */
  get decodeTokensPerS(): Record<string, number> {
    const rates = [...this.#decodeTokensPerS].map(([model, rate]) => [model, Number(rate.value?.toPrecision(4))])
    return Object.fromEntries(rates)
  }

  /** Since the start: tokens of finished answers, and seconds in which any answer was in progress. */
  get totals(): { readonly tokens: number; readonly busyS: number } {
    const current = this.#active > 0 ? this.#clock.nowMs() - this.#busySinceMs : 0
    return { tokens: this.#tokens, busyS: (this.#busyMs + current) / 1_000 }
  }

  /** @returns a function to call when the answer ends, with its speed unless it failed */
  begin(): (speed?: AnswerSpeed) => void {
    if (this.#active === 0) this.#busySinceMs = this.#clock.nowMs()
    this.#active++
    return (speed) => {
      this.#active--
      if (this.#active === 0) this.#busyMs += this.#clock.nowMs() - this.#busySinceMs
      if (!speed) return
      this.#tokens += speed.tokens
      if (speed.tpotMs !== null && speed.tpotMs > 0) this.#recordRate(speed.model, 1_000 / speed.tpotMs)
    }
  }

  #recordRate(model: string, tokensPerS: number): void {
    const rate = this.#decodeTokensPerS.get(model) ?? new Ewma()
    rate.record(tokensPerS)
    this.#decodeTokensPerS.set(model, rate)
  }
}
