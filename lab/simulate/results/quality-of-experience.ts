/** A reader expects the first token within this time, and the others at the reading rate. */
const expectedTtftMs = 1_000

/** How late a reader gets to the tokens of an answer. Mutable. */
export class Lateness {
  readonly #tokensPerS: number
  readonly #expectedMs: number
  #tokens = 0
  #sumMs = 0
  #lastMs = 0

  /** @param tokensPerS of the reader */
  constructor(tokensPerS: number, requestedMs: number) {
    this.#tokensPerS = tokensPerS
    this.#expectedMs = requestedMs + expectedTtftMs
  }

  /** @param readMs when the reader gets to the first of `count` tokens that are there */
  read(count: number, readMs: number): void {
    const expectedMs = this.#expectedMs + (1_000 * this.#tokens) / this.#tokensPerS
    // Those that follow at once are read at the rate at which they are expected.
    this.#lastMs = Math.max(0, readMs - expectedMs)
    this.#sumMs += count * this.#lastMs
    this.#tokens += count
  }

  /**
   * Quality of experience as Andes has it (Liu et al. 2024): the area under the tokens that were read over the area under
   * those that were expected, until the last one is read. 1: nothing came late. Tokens that are sent before they can be read are
   * worth neither more nor less. 0 without tokens.
   */
  get qualityOfExperience(): number {
    if (this.#tokens === 0) return 0
    const readingMs = (1_000 * (this.#tokens * (this.#tokens + 1))) / (2 * this.#tokensPerS)
    return 1 - this.#sumMs / (this.#tokens * this.#lastMs + readingMs)
  }
}
