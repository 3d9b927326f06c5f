/** Failures in a row after which a circuit opens. */
const failuresToOpen = 3
/** Time without requests; it doubles each time that the circuit opens again before an answer is whole. */
const openMs = { first: 1_000, max: 30_000 }
/** A server that asks for a longer wait is tried again then: the reason may have gone. */
const maxRestMs = 600_000
/** While it is half-open, from one request without a token to the next: the prompt of the first may be long. */
const trialMs = 5_000
const never = Number.POSITIVE_INFINITY

/** `closed`: requests are sent; `half-open`: one, on trial; `open`: none. */
export const circuitStates = ['closed', 'half-open', 'open'] as const
export type CircuitState = (typeof circuitStates)[number]

/** Whether a server gets requests for one of its models. Mutable; times in ms. */
export class Circuit {
  #isClosed = true
  #failures = 0
  /** Since the last whole answer. */
  #openings = 0
  #isResting = false
  /** End of the time without requests. */
  #untilMs = 0
  #nextMs = 0

  state(nowMs: number): CircuitState {
    if (this.#isClosed) return 'closed'
    return nowMs < this.#untilMs || this.needsProbe ? 'open' : 'half-open'
  }

  /** Whether it is open because the server asked for a wait. */
  isResting(nowMs: number): boolean {
    return this.#isResting && this.state(nowMs) === 'open'
  }

  /** When a request may be sent; Infinity: once a probe has succeeded. */
  get nextMs(): number {
    return this.#isClosed ? 0 : this.#nextMs
  }

  get needsProbe(): boolean {
    return this.nextMs === never
  }

  /** End of the time without requests. */
  get untilMs(): number {
    return this.#untilMs
  }

  sent(nowMs: number): void {
    this.#nextMs = nowMs + trialMs
  }

  /** An answer has begun. It may still fail before its end, so the failures before count. */
  began(nowMs: number): void {
    if (!this.isResting(nowMs)) this.#isClosed = true
  }

  completed(): void {
    this.#failures = 0
    this.#openings = 0
  }

  failed(nowMs: number): void {
    this.#failures += 1
    const state = this.state(nowMs)
    // Requests that were under way when it opened tell nothing new.
    if (state === 'half-open' || (state === 'closed' && this.#failures >= failuresToOpen)) this.#open(nowMs)
  }

  /** A probe has failed: the next one is due after the time without requests. */
  gone(nowMs: number): void {
    this.#open(nowMs)
    this.#nextMs = never
  }

  /** A probe has succeeded. */
  back(nowMs: number): void {
    if (this.needsProbe) this.#nextMs = nowMs
  }

  /** The server has asked for a wait. Requests that were under way ask for it again, and never shorten it. */
  rest(retryAfterMs: number, nowMs: number): void {
    const untilMs = nowMs + Math.min(maxRestMs, retryAfterMs)
    this.#untilMs = this.isResting(nowMs) ? Math.max(this.#untilMs, untilMs) : untilMs
    this.#nextMs = this.#untilMs
    this.#isClosed = false
    this.#isResting = true
  }

  #open(nowMs: number): void {
    this.#isClosed = false
    this.#isResting = false
    this.#untilMs = nowMs + Math.min(openMs.max, openMs.first * 2 ** this.#openings)
    this.#nextMs = this.#untilMs
    this.#openings += 1
  }
}
