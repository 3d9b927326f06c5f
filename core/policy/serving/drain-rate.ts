import { Ewma } from '../estimate/ewma.ts'

/** Fewer waiting tokens may be due to a pause of the bridge itself. */
const minBacklog = 8

/**
 * How fast a client takes tokens whose rate it does not state, seen from how long each delivery keeps it busy. As long as it
 * has taken all tokens before more are made, it is faster than the model, and its rate is unknown. Mutable; the time is
 * passed in.
 */
export class DrainRate {
  readonly #msPerToken = new Ewma()
  #lastTake: { readonly tokens: number; readonly atMs: number } | undefined

  /** Tokens per second; undefined until the client has let tokens wait. */
  get tokensPerS(): number | undefined {
    const msPerToken = this.#msPerToken.value
    return msPerToken ? 1_000 / msPerToken : undefined
  }

  /**
   * The client takes more tokens.
   * @param tokens >= 1
   * @param backlog tokens that were there before it asked: it was busy with its last ones until now
   */
  take(tokens: number, backlog: number, nowMs: number): void {
    if (backlog >= minBacklog && this.#lastTake) this.#msPerToken.record((nowMs - this.#lastTake.atMs) / this.#lastTake.tokens)
    this.#lastTake = { tokens, atMs: nowMs }
  }
}
