import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { mayEndBefore } from '../../core/answer/sketch/opening.ts'

/** A longer one has no end that could be found: the LLM goes on with it. */
const maxTokens = 96

/** What a client has of it, as it was sent: so it is repeated to a client that resumes the answer. */
export interface OpeningPiece {
  readonly text: string
  readonly tokens: number
}

export const openingText = (pieces: readonly OpeningPiece[]): string => pieces.map(({ text }) => text).join('')
export const openingTokens = (pieces: readonly OpeningPiece[]): number => pieces.reduce((sum, { tokens }) => sum + tokens, 0)

/**
 * The LLM's full answer, of which a reader gets the beginning while the answer is planned. Then it goes on, or ends with a sentence
 * where a sketch takes over.
 */
export class Opening {
  readonly pieces: OpeningPiece[] = []
  readonly #answer: AsyncGenerator<TextDelta, void>
  readonly #stop: AbortController
  #next: Promise<IteratorResult<TextDelta, void>> | undefined
  #hasEnded = false

  /** @param answer ends soon after `stop` is aborted */
  constructor(answer: AsyncGenerator<TextDelta, void>, stop: AbortController) {
    this.#answer = answer
    this.#stop = stop
  }

  /** Whether the LLM has answered in full. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Its first text. @throws BrimError of the LLM */
  async *first(): AsyncGenerator<TextDelta, void> {
    while (!this.#hasEnded && this.pieces.length === 0) yield* this.#take(await this.#peek())
  }

  /** What comes until the promise is settled. @throws BrimError of the LLM */
  async *until(planned: Promise<unknown>): AsyncGenerator<TextDelta, void> {
    const settled = planned.then(
      () => undefined,
      () => undefined,
    )
    while (!this.#hasEnded) {
      const next = await Promise.race([this.#peek(), settled])
      if (!next) return
      yield* this.#take(next)
    }
  }

  /** Up to the end of a sentence. @returns whether it is there; else the LLM goes on. @throws BrimError of the LLM */
  async *toEnd(): AsyncGenerator<TextDelta, boolean> {
    while (!this.#hasEnded && openingTokens(this.pieces) < maxTokens) {
      const next = await this.#peek()
      if (!next.done && mayEndBefore(openingText(this.pieces), next.value.text)) return true
      yield* this.#take(next)
    }
    return false
  }

  /** The LLM goes on to its end: this is no opening any more, and adds no pieces. */
  async *rest(): AsyncGenerator<TextDelta, void> {
    const next = await this.#next
    this.#next = undefined
    if (next?.value) yield next.value
    yield* this.#answer
  }

  /** The LLM writes no more of it. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#next?.catch(() => {})
    await this.#answer.return().catch(() => {})
  }

  #peek(): Promise<IteratorResult<TextDelta, void>> {
    if (!this.#next) {
      this.#next = this.#answer.next()
      // It may fail while nothing waits for it.
      this.#next.catch(() => {})
    }
    return this.#next
  }

  *#take(next: IteratorResult<TextDelta, void>): Generator<TextDelta> {
    this.#next = undefined
    this.#hasEnded = next.done || next.value.end !== undefined
    if (next.done) return
    const { text, tokenCount: tokens } = next.value
    this.pieces.push({ text, tokens })
    yield next.value
  }
}
