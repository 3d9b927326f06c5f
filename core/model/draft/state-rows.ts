import type { States } from '../../wire/protocol/states.ts'

/** The states of one token stream from position `first` on: one row per position, with the bytes that crossed the cut. */
export class StateRows {
  readonly width: number
  readonly first: number
  #length: number
  #half: Uint16Array
  /** Rows with values beyond fp16, ascending. */
  #wide: { position: number; values: Float32Array }[] = []

  constructor(width: number, first = 0) {
    this.width = width
    this.first = first
    this.#length = first
    this.#half = new Uint16Array(64 * width)
  }

  /** The position after the last row; `first` if there are no rows. */
  get length(): number {
    return this.#length
  }

  get bytes(): number {
    return this.#half.byteLength
  }

  append(states: States): void {
    const { width, first } = this
    const start = this.#length - first
    const end = start + states.rows
    if (end * width > this.#half.length) {
      const grown = new Uint16Array(Math.max(end, 2 * start) * width)
      grown.set(this.#half.subarray(0, start * width))
      this.#half = grown
    }
    this.#half.set(states.half.subarray(0, states.rows * width), start * width)
    states.wide?.index.forEach((row, at) => {
      const values = states.wide!.values.slice(at * width, (at + 1) * width)
      this.#wide.push({ position: this.#length + row, values })
    })
    this.#length = first + end
  }

  /** Drops the rows of the positions from `length` on. @throws RangeError if there are fewer */
  truncate(length: number): void {
    const { first } = this
    if (length < first || length > this.#length)
      throw new RangeError(`cannot keep positions ${first}..${length} of ${first}..${this.#length}`)
    this.#length = length
    this.#wide = this.#wide.filter(({ position }) => position < length)
  }

  /** Keeps the positions before `keep`, followed by the rows of `positions` in this order. @throws RangeError as `slice` */
  gather(keep: number, positions: readonly number[]): void {
    const picked = positions.map((position) => this.slice(position, position + 1))
    this.truncate(keep)
    for (const states of picked) this.append(states)
  }

  /** A copy of the rows of the positions from (inclusive) to (exclusive). @throws RangeError outside the stored positions */
  slice(from: number, to: number): States {
    const { width, first } = this
    if (from < first || to < from || to > this.#length)
      throw new RangeError(`positions ${from}..${to} of ${first}..${this.#length}`)
    const rows = { rows: to - from, width, half: this.#half.slice((from - first) * width, (to - first) * width) }
    const wide = this.#wide.filter(({ position }) => position >= from && position < to)
    if (wide.length === 0) return rows
    const values = new Float32Array(wide.length * width)
    for (const [at, one] of wide.entries()) values.set(one.values, at * width)
    return { ...rows, wide: { index: wide.map(({ position }) => position - from), values } }
  }
}
