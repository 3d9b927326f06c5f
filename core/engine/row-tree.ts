/** What a masked key adds to its attention score: its weight becomes 0. */
const masked = -1e9

/**
 * Which row of a sequence follows which. Rows are numbered in the order in which they came; up to `line` each follows the
 * one before it, behind that a row may follow any earlier one, and so branches share what they have in common. A row's
 * position in its text is the number of rows on the way to it.
 */
export class RowTree {
  static readonly empty = new RowTree(0, [])

  /** So many rows from the start follow one another. */
  readonly line: number
  /** Of the rows behind them. */
  readonly #parents: readonly number[]

  private constructor(line: number, parents: readonly number[]) {
    this.line = line
    this.#parents = parents
  }

  get length(): number {
    return this.line + this.#parents.length
  }

  get branches(): boolean {
    return this.#parents.length > 0
  }

  /**
   * With `count` rows more.
   * @param parents for each the row that it follows, -1 before all; absent: the one before it
   * @throws RangeError when they are not as many, or a row would follow one that is not there yet
   */
  extended(count: number, parents?: readonly number[]): RowTree {
    const { length } = this
    const all = parents ?? Array.from({ length: count }, (_, at) => length + at - 1)
    if (all.length !== count) throw new RangeError(`${count} rows that follow ${all.length}`)
    const stray = all.findIndex((parent, at) => !(Number.isInteger(parent) && parent >= -1 && parent < length + at))
    if (stray >= 0) throw new RangeError(`row ${length + stray} cannot follow row ${all[stray]}`)
    return RowTree.#of(this.line, [...this.#parents, ...all])
  }

  /** @throws RangeError when there are not so many rows */
  truncated(length: number): RowTree {
    if (!(length >= 0 && length <= this.length)) throw new RangeError(`cannot keep ${length} of ${this.length} rows`)
    return new RowTree(Math.min(length, this.line), this.#parents.slice(0, Math.max(0, length - this.line)))
  }

  /** Rows that follow one another and nothing else. */
  static lineOf(length: number): RowTree {
    return new RowTree(length, [])
  }

  /** The row that this one follows, -1: none. */
  parentOf(row: number): number {
    return row < this.line ? row - 1 : this.#parents[row - this.line]!
  }

  /** Of every row from `from` on. */
  parentsFrom(from: number): number[] {
    return Array.from({ length: this.length - from }, (_, at) => this.parentOf(from + at))
  }

  /** Rows that lead to this one, from the first behind `line` on, itself included; its way before them is the line. */
  pathTo(row: number): { readonly line: number; readonly rows: readonly number[] } {
    const rows: number[] = []
    let at = row
    for (; at >= this.line; at = this.parentOf(at)) rows.unshift(at)
    return { line: at + 1, rows }
  }

  /** A row's place in its text. */
  positionOf(row: number): number {
    const { line, rows } = this.pathTo(row)
    return line + rows.length - 1
  }

  /** Of every row from `from` on, int64 [length - from]. */
  positionsFrom(from: number): BigInt64Array {
    return BigInt64Array.from({ length: this.length - from }, (_, at) => BigInt(this.positionOf(from + at)))
  }

  /** What attention of the rows from `from` on adds to its scores: 0 on a row's own way, float32 [length - from, length]. */
  biasFrom(from: number): Float32Array<ArrayBuffer> {
    const { length } = this
    const bias = new Float32Array((length - from) * length).fill(masked)
    for (let row = from; row < length; row++) {
      const own = bias.subarray((row - from) * length, (row - from + 1) * length)
      const { line, rows } = this.pathTo(row)
      own.fill(0, 0, line)
      for (const at of rows) own[at] = 0
    }
    return bias
  }

  /** Rows behind the line that follow one another after all belong to it. */
  static #of(line: number, parents: readonly number[]): RowTree {
    const more = parents.findIndex((parent, at) => parent !== line + at - 1)
    const straight = more < 0 ? parents.length : more
    return new RowTree(line + straight, parents.slice(straight))
  }
}
