import type { Clock } from '../../core/base/clock.ts'
import { smooth } from '../../core/policy/estimate/ewma.ts'

/** What an answer has shown of its model's speed. */
export interface AnswerSpeed {
  readonly model: string
  /** Mean time per token after the first; null below two tokens. */
  readonly tpotMs: number | null
  readonly tokens: number
}

/** How many answers are under way, and how fast models decode: of tokens it knows how many there were, not which. */
export class AnswerMeter {
  readonly #clock: Clock
  readonly #decodeTokensPerS = new Map<string, number>()
  #underWay = 0
  #busyMs = 0
  #busySinceMs = 0
  #tokens = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get underWay(): number {
    return this.#underWay
  }

  /** By model, of one answer at a time; four digits. */
  get decodeTokensPerS(): Record<string, number> {
    return Object.fromEntries([...this.#decodeTokensPerS].map(([model, rate]) => [model, Number(rate.toPrecision(4))]))
  }

  /** Since the start: tokens of answers that have ended, seconds in which any was under way. */
  get totals(): { readonly tokens: number; readonly busyS: number } {
    const now = this.#underWay > 0 ? this.#clock.nowMs() - this.#busySinceMs : 0
    return { tokens: this.#tokens, busyS: (this.#busyMs + now) / 1_000 }
  }

  /** @returns to be called at its end, with what it has shown unless it broke off */
  begin(): (speed?: AnswerSpeed) => void {
    if (this.#underWay === 0) this.#busySinceMs = this.#clock.nowMs()
    this.#underWay++
    return (speed) => {
      this.#underWay--
      if (this.#underWay === 0) this.#busyMs += this.#clock.nowMs() - this.#busySinceMs
      if (!speed) return
      this.#tokens += speed.tokens
      const { model, tpotMs } = speed
      if (tpotMs !== null && tpotMs > 0)
        this.#decodeTokensPerS.set(model, smooth(this.#decodeTokensPerS.get(model), 1_000 / tpotMs))
    }
  }
}
