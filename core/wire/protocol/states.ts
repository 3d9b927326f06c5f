import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'

/**
 * Hidden states on the wire: one fp16 row per token. A row with a value beyond fp16's range (> 65,504) is also in `wide`,
 * which then replaces it.
 */
export interface States {
  readonly rows: number
  /** Values per row: the model's hidden size. */
  readonly width: number
  /** [rows, width] IEEE binary16 bits, row-major. */
  readonly half: Uint16Array
  readonly wide?: WideRows | undefined
}

export interface WideRows {
  /** Row numbers within the block, ascending. */
  readonly index: readonly number[]
  /** [index.length, width] fp32, row-major. */
  readonly values: Float32Array
}

/** Rows as on the wire: fp16, and those that exceed fp16 also in fp32. @param values [rows, width] */
export function toStates(values: Float32Array, width: number): States {
  const rows = values.length / width
  const half = new Uint16Array(values.length)
  const index: number[] = []
  for (let row = 0; row < rows; row++) {
    const [from, to] = [row * width, (row + 1) * width]
    if (encodeHalves(values.subarray(from, to), half.subarray(from, to)) >= 0) index.push(row)
  }
  if (index.length === 0) return { rows, width, half }
  const wide = new Float32Array(index.length * width)
  for (const [at, row] of index.entries()) wide.set(values.subarray(row * width, (row + 1) * width), at * width)
  return { rows, width, half, wide: { index, values: wide } }
}

/** States from the wire as fp32. @returns [rows, width] */
export function fromStates({ half, width, wide }: States): Float32Array {
  const values = new Float32Array(half.length)
  decodeHalves(half, values)
  wide?.index.forEach((row, at) => {
    values.set(wide.values.subarray(at * width, (at + 1) * width), row * width)
  })
  return values
}

/** Rows `from` (inclusive) to `to` (exclusive); the halves are a view, not a copy. @throws RangeError outside the block */
export function sliceStates(states: States, from: number, to: number): States {
  if (from < 0 || to < from || to > states.rows) throw new RangeError(`rows ${from}..${to} of a block of ${states.rows}`)
  const half = states.half.subarray(from * states.width, to * states.width)
  const block = { rows: to - from, width: states.width, half }
  const wide = states.wide && pickWide(states.wide, states.width, from, to)
  return wide ? { ...block, wide } : block
}

/** The blocks one after another, as a fresh copy. */
export function concatStates(blocks: readonly States[], width: number): States {
  const rows = blocks.reduce((sum, block) => sum + block.rows, 0)
  const half = new Uint16Array(rows * width)
  const index: number[] = []
  const values: Float32Array[] = []
  let row = 0
  for (const block of blocks) {
    if (block.width !== width) throw new RangeError(`a block of width ${block.width} among rows of width ${width}`)
    half.set(block.half.subarray(0, block.rows * width), row * width)
    if (block.wide) {
      index.push(...block.wide.index.map((at) => at + row))
      values.push(block.wide.values)
    }
    row += block.rows
  }
  if (index.length === 0) return { rows, width, half }
  const all = new Float32Array(index.length * width)
  let at = 0
  for (const part of values) {
    all.set(part, at)
    at += part.length
  }
  return { rows, width, half, wide: { index, values: all } }
}

/** The same rows, with this row also in `wide`. */
export function withWideRow(states: States, row: number): States {
  const { rows, width, half, wide = { index: [], values: new Float32Array(0) } } = states
  if (wide.index.includes(row)) return states
  const place = wide.index.filter((at) => at < row).length
  const values = new Float32Array(wide.values.length + width)
  values.set(wide.values.subarray(0, place * width))
  decodeHalves(half.subarray(row * width, (row + 1) * width), values.subarray(place * width, (place + 1) * width))
  values.set(wide.values.subarray(place * width), (place + 1) * width)
  return { rows, width, half, wide: { index: wide.index.toSpliced(place, 0, row), values } }
}

/** The first row with a NaN or an infinity, or undefined. For a row in `wide` only its fp32 values count. */
export function firstNonFiniteRow(states: States): number | undefined {
  const { rows, width, half, wide } = states
  for (let row = 0; row < rows; row++) {
    const at = wide ? wide.index.indexOf(row) : -1
    const bad =
      wide && at >= 0
        ? wide.values.subarray(at * width, (at + 1) * width).some((value) => !Number.isFinite(value))
        : hasSpecialHalf(half, row * width, (row + 1) * width)
    if (bad) return row
  }
  return undefined
}

/** Infinities and NaNs have an exponent of all ones. */
function hasSpecialHalf(half: Uint16Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) if ((half[i]! & 0x7c00) === 0x7c00) return true
  return false
}

/** The wide rows between `from` and `to`, renumbered. */
function pickWide(wide: WideRows, width: number, from: number, to: number): WideRows | undefined {
  const first = wide.index.findIndex((row) => row >= from)
  const index = wide.index.filter((row) => row >= from && row < to).map((row) => row - from)
  if (index.length === 0) return undefined
  return { index, values: wide.values.slice(first * width, (first + index.length) * width) }
}
