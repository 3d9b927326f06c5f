import { maxTiledHeadDim } from '../bundle/graph-io.ts'
import type { StepItem } from './contract.ts'
import { maskedBias } from './row-tree.ts'

export interface PackedItem {
  readonly rows: number
  /** Length of the sequence before the step. */
  readonly past: number
  /** Rows that attention reads: the new ones, and the last of them again. Default: `rows`. */
  readonly attended?: number
  readonly select: StepItem['select']
}

/** Inputs of a packed graph that describe its slots: see graph-io.ts. */
export interface Packing {
  readonly rows: number
  readonly spread: BigInt64Array
  readonly sizes: BigInt64Array
  readonly keep: BigInt64Array
  readonly seqlens: Int32Array
  readonly totals: Int32Array
  /** Packed rows that are returned. */
  readonly select: BigInt64Array
  /** Per item, the range [from, to) of its rows among the returned ones. */
  readonly returned: readonly (readonly [number, number])[]
}

/**
 * Packs the items' rows one after another. Unused slots come last and process packed row 0.
 * @param padRows further packed rows after those of the items, which repeat packed row 0
 */
export function packItems(items: readonly PackedItem[], slots: number, padRows = 0): Packing {
  const sizes = new BigInt64Array(slots).fill(1n)
  const seqlens = new Int32Array(slots)
  const totals = new Int32Array(slots).fill(1)
  const spread: number[] = []
  const keep: number[] = []
  const select: number[] = []
  const returned: [number, number][] = []
  items.forEach((item, slot) => {
    const { past, rows, attended = rows } = item
    sizes[slot] = BigInt(attended)
    seqlens[slot] = past + attended - 1
    totals[slot] = past + attended
    const [first, from] = [keep.length, select.length]
    for (const own of selectedRows(item)) select.push(first + own)
    returned.push([from, select.length])
    for (let row = 0; row < attended; row++) {
      if (row < rows) keep.push(spread.length)
      spread.push(first + Math.min(row, rows - 1))
    }
  })
  for (let unused = items.length; unused < slots; unused++) spread.push(0)
  for (let pad = 0; pad < padRows; pad++) keep.push(0)
  return { rows: keep.length, spread: int64(spread), sizes, keep: int64(keep), seqlens, totals, select: int64(select), returned }
}

/**
 * As `packItems` for a `grouped` graph: attention reads `group` rows for each new one, first those of the first head of each
 * group, then those of the next. `spread` and `keep` count heads: of a packed row its queries, keys and values, and of a row
 * that attention has read its results.
 */
export function packGrouped(
  items: readonly PackedItem[],
  slots: number,
  padRows: number,
  { group, kvHeads }: { readonly group: number; readonly kvHeads: number },
): Packing {
  const packed = packItems(
    items.map((item) => ({ ...item, attended: group * item.rows })),
    slots,
    padRows,
  )
  const kinds = Array.from({ length: kvHeads }, (_, head) => head)
  const width = (group + 2) * kvHeads
  const spread: number[] = []
  const keep: number[] = []
  const read = (row: number, member: number) => {
    for (const head of kinds) spread.push(row * width + head * group + member)
    for (let head = 0; head < 2 * kvHeads; head++) spread.push(row * width + kvHeads * group + head)
  }
  let [first, from] = [0, 0]
  for (const { rows } of items) {
    for (let member = 0; member < group; member++) for (let row = 0; row < rows; row++) read(first + row, member)
    for (let row = 0; row < rows; row++)
      for (const head of kinds)
        for (let member = 0; member < group; member++) keep.push((from + member * rows + row) * kvHeads + head)
    first += rows
    from += group * rows
  }
  for (let unused = items.length; unused < slots; unused++) read(0, 0)
  const row0 = keep.slice(0, group * kvHeads)
  for (let pad = 0; pad < padRows; pad++) keep.push(...row0)
  return { ...packed, spread: int64(spread), keep: int64(keep) }
}

/** Position of each row that attention reads in a `grouped` graph, int64 [group · rows]. */
export const groupedPositions = (past: number, rows: number, group: number): BigInt64Array =>
  BigInt64Array.from({ length: group * rows }, (_, at) => BigInt(past + (at % rows)))

/** Each row attends to those before it and to itself among the first head's rows: float32 [group · rows, past + group · rows]. */
export function groupedBias(past: number, rows: number, group: number): Float32Array<ArrayBuffer> {
  const total = past + group * rows
  const bias = new Float32Array(group * rows * total)
  for (let at = 0; at < group * rows; at++) bias.fill(maskedBias, at * total + past + (at % rows) + 1, (at + 1) * total)
  return bias
}

/** New rows of one sequence for which a `grouped` graph is faster: attention's tiles of queries hold all their heads. */
export const maxGroupedRows = 2

/** The most rows beyond a sequence's capacity and context that attention reads and writes because of `attendedRows`. */
export const maxPadRows = 2

/**
 * How many rows attention reads for `rows` new ones, so that the bits of a row depend neither on the number of rows in the step
 * nor on their neighbours. ONNX Runtime 1.30 has other kernels for one query row: for a step of one row, and where its tiles
 * of queries, of even size, leave one. So attention never reads an odd number. Above `maxTiledHeadDim` it sums up to 64 keys in
 * another order than more, so that it never reads fewer. See docs/adr/0012.
 * @param past length of the sequence before the step
 */
export function attendedRows(past: number, rows: number, headDim: number, contextLimit: number): number {
  const minKeys = headDim > maxTiledHeadDim ? Math.min(65, contextLimit) : 0
  return evenRows(Math.max(rows, minKeys - past))
}

export const evenRows = (rows: number): number => rows + (rows % 2)

/** The smallest of the offered slot counts for `needed` sequences. @throws RangeError if there is none */
export function slotsFor<Slots extends number>(needed: number, offered: readonly Slots[]): Slots {
  const slots = [...offered].sort((a, b) => a - b).find((count) => count >= needed)
  if (slots === undefined) throw new RangeError(`${needed} sequences in one step; the maximum is ${Math.max(...offered)}`)
  return slots
}

const int64 = (values: readonly number[]) => BigInt64Array.from(values, BigInt)

function selectedRows({ rows, select }: PackedItem): readonly number[] {
  if (select === 'none') return []
  if (select === 'last') return [rows - 1]
  if (select === 'all') return Array.from({ length: rows }, (_, row) => row)
  const stray = select.find((row) => !(row >= 0 && row < rows))
  if (stray !== undefined) throw new RangeError(`row ${stray} is selected, but there are ${rows} new rows`)
  return select
}
