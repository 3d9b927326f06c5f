/** Lengths of the n-grams that are looked for, 1 <= shortest <= longest. */
export interface LookupLengths {
  readonly shortest: number
  readonly longest: number
}

/** Where the end of a text has occurred before. */
export interface Match {
  /** Tokens of the n-gram found, shortest..longest. */
  readonly length: number
  /** The place after that earlier occurrence: its continuation starts here. */
  readonly end: number
}

/**
 * Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding): what followed the latest earlier
 * occurrence of the text's last n tokens is the draft, the longest n that has one first. REST (He et al. 2023,
 * arXiv:2311.08252) does the same in a datastore of other texts; here prompt and answer are all there is. Adding or
 * dropping a token and looking up cost the same however long the text is.
 */
export class LookupIndex {
  readonly #lengths: LookupLengths
  readonly #ids: number[] = []
  /** By n-gram: the place after its latest occurrence. */
  readonly #latest = new Map<string, number>()
  /** By place and n: the place after the occurrence before the one that ends there; 0: there is none. */
  readonly #before: number[][] = []

  /** @throws RangeError when no n-gram has such a length */
  constructor(lengths: LookupLengths) {
    if (!(lengths.shortest >= 1 && lengths.longest >= lengths.shortest))
      throw new RangeError(`n-grams of ${lengths.shortest} to ${lengths.longest} tokens`)
    this.#lengths = lengths
  }

  get length(): number {
    return this.#ids.length
  }

  push(token: number): void {
    this.#ids.push(token)
    this.#before.push(
      this.#gramsAtEnd().map((gram) => {
        const before = this.#latest.get(gram) ?? 0
        this.#latest.set(gram, this.#ids.length)
        return before
      }),
    )
  }

  /** Keeps the first `length` tokens. @throws RangeError when that is more than there are */
  truncate(length: number): void {
    if (length < 0 || length > this.#ids.length) throw new RangeError(`cannot keep ${length} of ${this.#ids.length} tokens`)
    while (this.#ids.length > length) {
      const before = this.#before.pop()!
      this.#gramsAtEnd().forEach((gram, at) => {
        if (before[at] === 0) this.#latest.delete(gram)
        else this.#latest.set(gram, before[at]!)
      })
      this.#ids.pop()
    }
  }

  /** Undefined: the end of the text has not occurred before. */
  match(): Match | undefined {
    const before = this.#before.at(-1)
    if (!before) return undefined
    const at = before.findLastIndex((end) => end > 0)
    return at < 0 ? undefined : { length: this.#lengths.shortest + at, end: before[at]! }
  }

  /** Up to `count` tokens that followed a match; fewer where the text ends. */
  after({ end }: Match, count: number): number[] {
    return this.#ids.slice(end, end + count)
  }

  /** The n-grams at the end of the text, the shortest first. */
  #gramsAtEnd(): string[] {
    const { shortest, longest } = this.#lengths
    const count = Math.min(longest, this.#ids.length)
    return Array.from({ length: Math.max(0, count - shortest + 1) }, (_, at) => this.#ids.slice(-(shortest + at)).join())
  }
}
