import type { Clock } from '../../kit/base/clock.ts'
import type { ServerCounts } from '../../policy/upstream/server-counts.ts'
import type { ServerPace } from '../../policy/upstream/server-pace.ts'
import type { Billing, TextDelta } from '../endpoint/endpoint.ts'
import type { PromptTokens } from './request-body.ts'

/** How one server counts and writes, which its answers teach. */
export interface ServerHabits {
  readonly counts: ServerCounts
  readonly pace: ServerPace
}

/** One answer of a server that is paid: tells its payer what the server may have made of it. */
export class BilledAnswer implements Pick<Billing, 'sent' | 'refused'> {
  readonly #billing: Billing | undefined
  readonly #prompt: PromptTokens
  readonly #habits: ServerHabits
  readonly #clock: Clock
  #mayBeBilled = false
  #sentMs = 0
  #firstMs = 0
  #lastMs = 0
  #bytes = 0
  #events = 0
  #tokens = 0
  /** With its end, which has come. */
  #last: TextDelta | undefined

  constructor(billing: Billing | undefined, prompt: PromptTokens, habits: ServerHabits, clock: Clock) {
    this.#billing = billing
    this.#prompt = prompt
    this.#habits = habits
    this.#clock = clock
  }

  get mayBeBilled(): boolean {
    return this.#mayBeBilled && this.#billing !== undefined
  }

  sent(): void {
    this.#mayBeBilled = true
    this.#sentMs = this.#clock.nowMs()
    this.#billing?.sent()
  }

  refused(): void {
    this.#mayBeBilled = false
    this.#billing?.refused()
  }

  responded(): void {
    this.#habits.pace.responded(this.#clock.nowMs() - this.#sentMs)
  }

  /** An event with text. @param tokens of the answer so far */
  came(bytes: number, tokens: number): void {
    this.#lastMs = this.#clock.nowMs()
    if (this.#events === 0) this.#firstMs = this.#lastMs
    this.#events += 1
    this.#bytes += bytes
    this.#tokens = tokens
  }

  ended(last: TextDelta): void {
    this.#last = last
    this.#tokens += last.tokenCount
    this.#habits.pace.ended(this.#arrived)
  }

  /** Its reader may not have taken all of it. */
  left(): void {
    if (!this.mayBeBilled) return
    if (this.#last) this.#billing?.left(this.#last.promptTokens, this.#tokens)
    else {
      const arrived = this.#arrived
      const unseen = this.#habits.pace.unseen(arrived)
      this.#billing?.left(this.#expected?.promptTokens, unseen === undefined ? undefined : arrived.tokens + unseen)
    }
  }

  get #expected() {
    return this.#habits.counts.expected(this.#prompt.most, { bytes: this.#bytes, events: this.#events })
  }

  get #arrived() {
    return {
      // A token has at least a byte.
      tokens: Math.max(this.#tokens, this.#expected?.tokens ?? this.#bytes),
      events: this.#events,
      spanMs: this.#lastMs - this.#firstMs,
      sinceMs: this.#clock.nowMs() - this.#lastMs,
    }
  }
}
