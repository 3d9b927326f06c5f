import type { TextDelta } from '../../core/answer/endpoint.ts'
import { fewestTokens } from '../../core/answer/fewest-tokens.ts'
import type { SentenceRecord, SentenceSource } from './answer-log.ts'

/** The sentences of one answer, which are chosen in any order and sent in that of their sketch. */
export class Sentences {
  readonly #lines: readonly string[]
  readonly #maxTokens: number
  readonly #chosen = new Map<number, SentenceRecord>()
  #sent = 0
  #sentTokens = 0
  #isCut = false

  /** @param maxTokens of the answer: it ends before the sentence that would exceed them */
  constructor(lines: readonly string[], maxTokens: number) {
    this.#lines = lines
    this.#maxTokens = maxTokens
  }

  /** Lines without a text, ascending. */
  get missing(): number[] {
    return this.#lines.flatMap((_, at) => (this.#chosen.has(at) ? [] : [at]))
  }

  get isEmpty(): boolean {
    return this.#chosen.size === 0
  }

  /** Of the last one that was sent. */
  get lastSource(): SentenceSource | undefined {
    return this.#chosen.get(this.#sent - 1)?.source
  }

  /** Whether the answer has as many tokens as allowed: what follows is not sent. */
  get isCut(): boolean {
    return this.#isCut
  }

  has(sentence: number): boolean {
    return this.#chosen.has(sentence)
  }

  choose(record: SentenceRecord): void {
    this.#chosen.set(record.sentence, record)
  }

  /** Those that follow what was sent without a gap. */
  *ready(): Generator<TextDelta> {
    for (let next = this.#chosen.get(this.#sent); next && !this.#isCut; next = this.#chosen.get(this.#sent)) {
      const { text, tokens, source } = next
      // An empty sentence takes its line away, too. The count is the device's claim: a token has a byte of text, and no more than a word.
      const tokenCount = Math.max(fewestTokens(text).tokens, Math.min(tokens, Buffer.byteLength(text)))
      this.#isCut = this.#sentTokens + tokenCount > this.#maxTokens
      if (this.#isCut) return
      const separator = this.#sentTokens === 0 || text === '' ? '' : ' '
      this.#sent += 1
      this.#sentTokens += tokenCount
      yield { source, text: separator + text, tokenCount, end: undefined, sketch: this.#lines.slice(this.#sent) }
    }
  }
}
