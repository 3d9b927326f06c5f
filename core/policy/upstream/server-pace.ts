/** What has come of an answer. Times in ms. */
export interface ArrivedAnswer {
  readonly tokens: number
  /** With text. */
  readonly events: number
  /** From the first event to the last. */
  readonly spanMs: number
  /** Since the last event. */
  readonly sinceMs: number
}

/** What has come in a shorter time does not tell a server that writes from one that has written: all of it may be on its way. */
const minSpanMs = 100
/** Complete answers by which a server is known. */
const knownBy = 3

/**
 * How fast one server writes, and how soon it responds: for what it has written when it learns that the reader of an answer has left.
 * Servers stop then, and bill what they have written. Mutable.
 */
export class ServerPace {
  /** Bounds the way to the server and back: the shortest time from a request to the head of its response. */
  #roundTripMs = Number.POSITIVE_INFINITY
  /** Of the latest answer. */
  #tokensPerMs: number | undefined
  #complete = 0
  #hasExceeded = false

  responded(ms: number): void {
    this.#roundTripMs = Math.min(this.#roundTripMs, ms)
  }

  /** All of an answer has come. */
  ended(answer: ArrivedAnswer): void {
    this.#complete += 1
    this.#came(answer)
  }

  /** It has sent, and may bill, more than it was asked for: what it writes for a reader who has left cannot be bounded. */
  exceeded(): void {
    this.#hasExceeded = true
  }

  #came({ tokens, events, spanMs }: ArrivedAnswer): void {
    // What comes within a round trip may have been written at any time in it.
    const ms = Math.max(spanMs, this.#roundTripMs)
    if (events > 0 && ms > 0) this.#tokensPerMs = tokens / ms
  }

  /**
   * Tokens that the server may have written, and that have not come, when the connection of an answer is closed: an event, and what
   * is written since the last one and in a round trip. Undefined: the server is not known well enough.
   */
  unseen(answer: ArrivedAnswer): number | undefined {
    const { tokens, events, sinceMs } = answer
    if (answer.spanMs >= minSpanMs) this.#came(answer)
    if (this.#hasExceeded || this.#complete < knownBy || this.#tokensPerMs === undefined) return undefined
    // Before its first event a server is busy with the prompt.
    const ms = this.#roundTripMs + (events > 0 ? sinceMs : 0)
    return Math.ceil(this.#tokensPerMs * ms + (events > 0 ? tokens / events : 1))
  }
}
