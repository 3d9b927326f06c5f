import type { States } from '../../core/protocol/states.ts'

/**
 * The shallow states of one stream of tokens, a row a position: what went up, kept so that it can go up again, byte
 * for byte, when the bridge has lost it.
 */
export class ShallowRows {
  readonly width: number
  #length = 0
  #half: Uint16Array
  /** Rows that fp16 could not hold, ascending. */
  #wide: { row: number; values: Float32Array }[] = []

  constructor(width: number) {
    this.width = width
    this.#half = new Uint16Array(64 * width)
  }

  get length(): number {
    return this.#length
  }

  append(states: States): void {
    const { width } = this
    const end = this.#length + states.rows
    if (end * width > this.#half.length) {
      const grown = new Uint16Array(Math.max(end, 2 * this.#length) * width)
      grown.set(this.#half.subarray(0, this.#length * width))
      this.#half = grown
    }
    this.#half.set(states.half.subarray(0, states.rows * width), this.#length * width)
    states.wide?.index.forEach((row, at) => {
      this.#wide.push({ row: this.#length + row, values: states.wide!.values.slice(at * width, (at + 1) * width) })
    })
    this.#length = end
  }

  truncate(length: number): void {
    if (length < 0 || length > this.#length) throw new RangeError(`cannot keep ${length} of ${this.#length} rows`)
    this.#length = length
    this.#wide = this.#wide.filter(({ row }) => row < length)
  }

  /** Rows from (inclusive) to (exclusive); a copy. @throws RangeError outside of what there is */
  slice(from: number, to: number): States {
    const { width } = this
    if (from < 0 || to < from || to > this.#length) throw new RangeError(`rows ${from}..${to} of ${this.#length}`)
    const rows = { rows: to - from, width, half: this.#half.slice(from * width, to * width) }
    const wide = this.#wide.filter(({ row }) => row >= from && row < to)
    if (wide.length === 0) return rows
    const values = new Float32Array(wide.length * width)
    for (const [at, one] of wide.entries()) values.set(one.values, at * width)
    return { ...rows, wide: { index: wide.map(({ row }) => row - from), values } }
  }
}
