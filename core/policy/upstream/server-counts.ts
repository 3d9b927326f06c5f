import { LinearFit } from '../estimate/linear-fit.ts'

/** Answers after which one counts half. */
const halfLife = 50
/** Answers with a server's own count, before its count is expected of answers without one. */
const minAnswers = 3

/** What has come of an answer. */
export interface ArrivedText {
  /** UTF-8, reasoning included. */
  readonly bytes: number
  /** Events with text. */
  readonly events: number
}

/**
 * How one server counts tokens, learned from the answers that it has counted itself: prompts by their bytes, with the offset of its own
 * instructions; answers by bytes or by events, whichever has predicted its counts better. For answers whose count is missing. Mutable.
 */
export class ServerCounts {
  readonly #prompts = new LinearFit(halfLife)
  readonly #perByte = new LearnedRatio()
  readonly #perEvent = new LearnedRatio()
  #answers = 0

  /** @param promptBytes as sent @param counted by the server */
  learn(promptBytes: number, answer: ArrivedText, counted: { readonly promptTokens: number; readonly tokens: number }): void {
    this.#prompts.record(promptBytes, counted.promptTokens)
    this.#perByte.record(answer.bytes, counted.tokens)
    this.#perEvent.record(answer.events, counted.tokens)
    this.#answers += 1
  }

  /** What the server would have counted; undefined: too little is known of it. */
  expected(promptBytes: number, answer: ArrivedText): { readonly promptTokens: number; readonly tokens: number } | undefined {
    const { line } = this.#prompts
    if (this.#answers < minAnswers || !line) return undefined
    const tokens =
      this.#perEvent.spread < this.#perByte.spread ? answer.events * this.#perEvent.factor : answer.bytes * this.#perByte.factor
    return { promptTokens: Math.ceil(line.slope * promptBytes + line.intercept), tokens: Math.ceil(tokens) }
  }
}

/** y over x, of which older samples count less. Mutable. */
class LearnedRatio {
  #weight = 0
  #logs = 0
  #squares = 0

  record(x: number, y: number): void {
    if (!(x > 0 && y > 0)) return
    const decay = 2 ** (-1 / halfLife)
    const log = Math.log(y / x)
    this.#weight = this.#weight * decay + 1
    this.#logs = this.#logs * decay + log
    this.#squares = this.#squares * decay + log ** 2
  }

  /** 1 before the first sample. */
  get factor(): number {
    return this.#weight === 0 ? 1 : Math.exp(this.#logs / this.#weight)
  }

  /** Variance of its logarithm; Infinity before the first sample. */
  get spread(): number {
    if (this.#weight === 0) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#squares / this.#weight - (this.#logs / this.#weight) ** 2)
  }
}
