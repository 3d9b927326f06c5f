/** Sentences that the LLM writes at once. */
export const maxParallelSentences = 16

/**
 * The sentences of one sketched answer: their candidates arrive in any order, each sentence gets its text once, and they are sent in
 * the order of their sketch. Without the texts. Mutable.
 */
export class SketchedSentences {
  readonly #lines: number
  readonly #candidates: number
  readonly #maxTokens: number
  /** Candidates of each sentence that have arrived. */
  readonly #arrived = new Map<number, number>()
  /** Tokens of those that have their text. */
  readonly #chosen = new Map<number, number>()
  #sent = 0
  #sentTokens = 0
  #isCut = false

  /**
   * @param candidates of each sentence that the devices write
   * @param maxTokens of the answer: it ends before the sentence that would exceed them
   */
  constructor(lines: number, candidates: number, maxTokens = Number.POSITIVE_INFINITY) {
    this.#lines = lines
    this.#candidates = candidates
    this.#maxTokens = maxTokens
  }

  /** Those without a text, ascending. */
  get missing(): number[] {
    return Array.from({ length: this.#lines }, (_, at) => at).filter((at) => !this.#chosen.has(at))
  }

  get isEmpty(): boolean {
    return this.#chosen.size === 0
  }

  /** Whether a text is missing, and would be sent. */
  get needsMore(): boolean {
    return this.#chosen.size < this.#lines && !this.#isCut
  }

  /** Tokens of those that count as sent. */
  get sentTokens(): number {
    return this.#sentTokens
  }

  /** Whether the answer has as many tokens as allowed: what follows is not sent. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** A device has written a candidate. @returns whether it is the last of its sentence, which is to be chosen from */
  arrived(sentence: number): boolean {
    const count = (this.#arrived.get(sentence) ?? 0) + 1
    this.#arrived.set(sentence, count)
    return count === this.#candidates
  }

  /** Those that have some of their candidates: no more will come. */
  get incomplete(): number[] {
    return [...this.#arrived].flatMap(([sentence, count]) => (count < this.#candidates ? [sentence] : []))
  }

  has(sentence: number): boolean {
    return this.#chosen.has(sentence)
  }

  /** A sentence has its text. */
  choose(sentence: number, tokens: number): void {
    this.#chosen.set(sentence, tokens)
  }

  /** Those that follow what was sent without a gap, and count as sent. */
  takeReady(): number[] {
    const ready: number[] = []
    for (;;) {
      const tokens = this.#chosen.get(this.#sent)
      if (tokens === undefined || this.#isCut) return ready
      this.#isCut = this.#sentTokens + tokens > this.#maxTokens
      if (this.#isCut) return ready
      ready.push(this.#sent)
      this.#sent += 1
      this.#sentTokens += tokens
    }
  }

  /** Those that the LLM writes next, together; none: the answer is complete. */
  get nextOfLlm(): number[] {
    return this.needsMore ? this.missing.slice(0, maxParallelSentences) : []
  }
}
