/** A run that takes longer is not worth the turn of the event loop that it blocks. */
const maxShortMs = 0.25
/** What is forgotten of the shortest run with each later one: other processes can only lengthen a run, but contexts grow. */
const growth = 1.05

/** Which runs of a graph are so short that another thread, which costs two switches, is not worth its while. Mutable. */
export class ShortRuns {
  /** Expected duration in ms by the logarithm of the number of rows, rounded up. */
  readonly #expectedMs = new Map<number, number>()

  /** @param rows >= 1 */
  isShort(rows: number): boolean {
    return (this.#expectedMs.get(sizeOf(rows)) ?? Number.POSITIVE_INFINITY) <= maxShortMs
  }

  record(rows: number, tookMs: number): void {
    const before = this.#expectedMs.get(sizeOf(rows)) ?? Number.POSITIVE_INFINITY
    this.#expectedMs.set(sizeOf(rows), Math.min(tookMs, growth * before))
  }
}

const sizeOf = (rows: number) => Math.ceil(Math.log2(rows))
