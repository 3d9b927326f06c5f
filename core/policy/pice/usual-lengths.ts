/** Answers that count: the latest. */
const maxSamples = 64
/** Fewer say too little. */
const minSamples = 16

/**
 * How long the latest answers were that might have been sketched, in tokens of the LLM. Where even the longest of them would be
 * answered in full, a model need not be asked how long the next will be: one in 64 is longer, and counts from then on. Mutable.
 */
export class UsualLengths {
  /** A ring: the oldest is overwritten. */
  readonly #tokens: number[] = []
  #next = 0

  record(tokens: number): void {
    this.#tokens[this.#next] = tokens
    this.#next = (this.#next + 1) % maxSamples
  }

  /** Undefined: too few answers are known. */
  get longest(): number | undefined {
    return this.#tokens.length < minSamples ? undefined : Math.max(...this.#tokens)
  }
}
