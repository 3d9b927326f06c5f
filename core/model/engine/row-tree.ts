/** Attention bias of a masked key; its softmax weight becomes 0. */
export const maskedBias = -1e9

/**
 * The parent of each row of a sequence, immutable. Rows are numbered in the order of their steps. The first `line` rows each
 * follow the one before; a later row may follow any earlier row, so that branches share a prefix. A row's text position is
 * the number of rows on the path before it.
 */
export class RowTree {
  static readonly empty = new RowTree(0, [])

  /** Number of rows from the start that each follow the one before. */
  readonly line: number
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
   * The tree with `count` more rows.
   * @param parents the row that each follows, or -1; absent: the row before it
   * @throws RangeError if their number differs from `count`, or a row would follow a later one
   */
  extended(count: number, parents?: readonly number[]): RowTree {
    const { length } = this
    const all = parents ?? Array.from({ length: count }, (_, at) => length + at - 1)
    if (all.length !== count) throw new RangeError(`${count} rows have ${all.length} parents`)
    const stray = all.findIndex((parent, at) => !(Number.isInteger(parent) && parent >= -1 && parent < length + at))
    if (stray >= 0) throw new RangeError(`row ${length + stray} cannot follow row ${all[stray]}`)
    return RowTree.#of(this.line, [...this.#parents, ...all])
  }

  /** The tree of the first `length` rows. @throws RangeError if there are fewer */
  truncated(length: number): RowTree {
    if (!(length >= 0 && length <= this.length)) throw new RangeError(`cannot keep ${length} of ${this.length} rows`)
    return new RowTree(Math.min(length, this.line), this.#parents.slice(0, Math.max(0, length - this.line)))
  }

  /** A tree without branches. */
  static lineOf(length: number): RowTree {
    return new RowTree(length, [])
  }

  /** The row that this one follows, or -1. */
  parentOf(row: number): number {
    return row < this.line ? row - 1 : this.#parents[row - this.line]!
  }

  parentsFrom(from: number): number[] {
    return Array.from({ length: this.length - from }, (_, at) => this.parentOf(from + at))
  }

  /** The path to a row: the number of its rows within the line, and its rows after the line, the row itself included. */
  pathTo(row: number): { readonly line: number; readonly rows: readonly number[] } {
    const rows: number[] = []
    let at = row
    for (; at >= this.line; at = this.parentOf(at)) rows.unshift(at)
    return { line: at + 1, rows }
  }

  positionOf(row: number): number {
    const { line, rows } = this.pathTo(row)
    return line + rows.length - 1
  }

  /** Text positions of the rows from `from` on, int64 [length - from]. */
  positionsFrom(from: number): BigInt64Array {
    return BigInt64Array.from({ length: this.length - from }, (_, at) => BigInt(this.positionOf(from + at)))
  }

  /**
   * Attention bias of the rows from `from` on: 0 on a row's own path, else masked. float32 [length - from, length]
   * @param window positions at the end of the path, the row's own included; absent: all
   */
  biasFrom(from: number, window = Number.POSITIVE_INFINITY): Float32Array<ArrayBuffer> {
    const { length } = this
    const bias = new Float32Array((length - from) * length).fill(maskedBias)
    for (let row = from; row < length; row++) {
      const own = bias.subarray((row - from) * length, (row - from + 1) * length)
      const { line, rows } = this.pathTo(row)
      const first = Math.max(0, line + rows.length - window)
      own.fill(0, Math.min(first, line), line)
      for (const at of rows.slice(Math.max(0, first - line))) own[at] = 0
    }
    return bias
  }

  /** Extends the line by the following rows as long as each follows the one before. */
  static #of(line: number, parents: readonly number[]): RowTree {
    const more = parents.findIndex((parent, at) => parent !== line + at - 1)
    const straight = more < 0 ? parents.length : more
    return new RowTree(line + straight, parents.slice(straight))
  }
}
