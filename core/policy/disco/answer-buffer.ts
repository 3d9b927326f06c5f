import type { Piece } from './controller-plan.ts'

/** Of deliveries that came later than they were due, for want of a timer: so much is made up, so that the reader gets its rate. */
const maxCatchUpMs = 250

/**
 * The pieces of one answer, and which of them the reader has: it gets a piece as soon as it has had the time to read the one
 * before, d_i = max(available_i, d_{i−1} + tokens_{i−1}/r_c). Mutable; times are in ms and never go back.
 */
export class AnswerBuffer<P extends Piece> {
  /** Of the whole answer so far. */
  tokens = 0
  /** That the reader does not have yet. */
  unread = 0
  /** Whether the last piece is there. */
  isComplete = false
  /** Gaps in the delivery for want of tokens: how many, and their sum. */
  stalls = 0
  stalledMs = 0
  readonly #msPerToken: number
  readonly #pieces: P[] = []
  #delivered = 0
  /** When the reader has read what it has. */
  #readMs = Number.NEGATIVE_INFINITY

  /** @param tokensPerS 0: the reader takes pieces as fast as they come */
  constructor(tokensPerS: number) {
    this.#msPerToken = tokensPerS > 0 ? 1_000 / tokensPerS : 0
  }

  get pieces(): readonly P[] {
    return this.#pieces
  }

  get hasDelivered(): boolean {
    return this.#delivered > 0
  }

  get hasUnread(): boolean {
    return this.#delivered < this.#pieces.length
  }

  /** When the next piece is to be delivered. Undefined: there is none. */
  get dueMs(): number | undefined {
    return this.hasUnread ? this.#readMs : undefined
  }

  /** When the reader will have read all that there is. */
  lastsUntilMs(nowMs: number): number {
    return Math.max(this.#readMs, nowMs) + this.unread * this.#msPerToken
  }

  /** The same, without so many of its last tokens; in the past, where the reader waits. */
  emptyMs(without: number): number {
    return this.#readMs + (this.unread - without) * this.#msPerToken
  }

  push(piece: P, nowMs: number): void {
    const waitedMs = nowMs - this.#readMs
    if (!this.hasUnread && this.hasDelivered && this.#msPerToken > 0 && waitedMs > 0) {
      this.stalls += 1
      this.stalledMs += waitedMs
    }
    // The reader goes on with it from here.
    if (!this.hasUnread && waitedMs > 0) this.#readMs = nowMs
    this.#pieces.push(piece)
    this.tokens += piece.tokens
    this.unread += piece.tokens
    this.isComplete = piece.isLast
  }

  /** Delivers the next piece, if it is due. */
  take(nowMs: number): P | undefined {
    const piece = this.#pieces[this.#delivered]
    // A piece without tokens takes no time to read.
    if (!piece || (nowMs < this.#readMs && piece.tokens > 0)) return undefined
    this.#delivered += 1
    this.unread -= piece.tokens
    this.#readMs = Math.max(this.#readMs, nowMs - maxCatchUpMs) + piece.tokens * this.#msPerToken
    return piece
  }

  /** The unread pieces after the last end of a word, or else of a character: where they begin, and their tokens. */
  tail(): { readonly at: number; readonly tokens: number; readonly border: P['border'] } {
    let tokens = 0
    let character: { at: number; tokens: number; border: 'character' } | undefined
    for (let at = this.#pieces.length - 1; at >= this.#delivered; at--) {
      const { tokens: own, border } = this.#pieces[at]!
      tokens += own
      if (border === 'word') return { at, tokens, border }
      if (border === 'character') character ??= { at, tokens, border }
    }
    return character ?? { at: this.#pieces.length, tokens: 0, border: 'none' }
  }

  /** Takes unread pieces back, from one of them on. */
  cut(at: number): P[] {
    const tail = this.#pieces.splice(Math.max(at, this.#delivered))
    for (const { tokens } of tail) {
      this.tokens -= tokens
      this.unread -= tokens
    }
    return tail
  }
}
