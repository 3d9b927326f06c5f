/** Lengths of the indexed n-grams, 1 <= shortest <= longest. */
export interface NgramLengths {
  readonly shortest: number
  readonly longest: number
}

/** The previous occurrence of an n-gram at the end of the text. */
interface Match {
  /** Length of the n-gram, shortest..longest. */
  readonly length: number
  /** The index after the previous occurrence, at which its continuation starts. */
  readonly end: number
}

/**
 * Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding): the draft is the continuation of the
 * previous occurrence of the text's last n tokens, for the largest n that has one. REST (He et al. 2023, arXiv:2311.08252)
 * does the same with a datastore of other texts. Adding, dropping and looking up a token take constant time.
 */
export class LookupIndex {
  readonly #lengths: NgramLengths
  readonly #ids: number[] = []
  /** By n-gram: the index after its latest occurrence. */
  readonly #latest = new Map<string, number>()
  /** By position and n-gram length: the index after the previous occurrence of the n-gram that ends there; 0: none. */
  readonly #before: number[][] = []

  /** @throws RangeError unless 1 <= shortest <= longest */
  constructor(lengths: NgramLengths) {
    if (!(lengths.shortest >= 1 && lengths.longest >= lengths.shortest))
      throw new RangeError(`n-gram lengths ${lengths.shortest} to ${lengths.longest} are not 1 <= shortest <= longest`)
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

  /** Keeps the first `length` tokens. @throws RangeError if there are fewer */
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

  /** The previous occurrence of the longest n-gram at the end of the text, if there is one. */
  match(): Match | undefined {
    const before = this.#before.at(-1)
    if (!before) return undefined
    const at = before.findLastIndex((end) => end > 0)
    return at < 0 ? undefined : { length: this.#lengths.shortest + at, end: before[at]! }
  }

  /** Up to `count` tokens that followed a match. */
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
