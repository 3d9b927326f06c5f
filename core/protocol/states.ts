/**
 * Hidden states as they cross a cut: one fp16 row a token. A row with a value that fp16 cannot hold (> 65,504) also
 * stands whole in `wide`, which then counts for that row.
 */
export interface States {
  readonly rows: number
  /** Values per row: the model's hidden size. */
  readonly width: number
  /** [rows, width] IEEE binary16 bits, row-major. */
  readonly half: Uint16Array
  readonly wide?: WideRows
}

export interface WideRows {
  /** Row numbers within the block, ascending. */
  readonly index: readonly number[]
  /** [index.length, width] fp32, row-major. */
  readonly values: Float32Array
}

/** Rows `from` (inclusive) to `to` (exclusive); the halves are a view, not a copy. */
export function sliceStates(states: States, from: number, to: number): States {
  const half = states.half.subarray(from * states.width, to * states.width)
  const block = { rows: to - from, width: states.width, half }
  const wide = states.wide && pickWide(states.wide, states.width, (row) => (row >= from && row < to ? row - from : undefined))
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

function pickWide(wide: WideRows, width: number, moveTo: (row: number) => number | undefined): WideRows | undefined {
  const index: number[] = []
  const values: number[] = []
  wide.index.forEach((row, i) => {
    const target = moveTo(row)
    if (target === undefined) return
    index.push(target)
    values.push(...wide.values.subarray(i * width, (i + 1) * width))
  })
  return index.length > 0 ? { index, values: Float32Array.from(values) } : undefined
}
