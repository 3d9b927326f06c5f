import type { StepItem } from './contract.ts'

interface PackedItem {
  /** Number of new rows. */
  readonly rows: number
  /** Length of the sequence before the step. */
  readonly past: number
  readonly select: StepItem['select']
}

/** Inputs of a packed graph that describe its slots: see graph-io.ts. */
export interface Packing {
  /** Number of new rows of all items. */
  readonly rows: number
  readonly spread: BigInt64Array
  readonly sizes: BigInt64Array
  readonly seqlens: Int32Array
  readonly totals: Int32Array
  /** Packed rows that are returned. */
  readonly select: BigInt64Array
  /** Per item, the range [from, to) of its rows among the returned ones. */
  readonly returned: readonly (readonly [number, number])[]
}

/** Packs the items' rows one after another. Unused slots come last and process packed row 0. */
export function packItems(items: readonly PackedItem[], slots: number): Packing {
  const sizes = new BigInt64Array(slots).fill(1n)
  const seqlens = new Int32Array(slots)
  const totals = new Int32Array(slots).fill(1)
  const select: bigint[] = []
  const returned: [number, number][] = []
  let row = 0
  items.forEach((item, slot) => {
    sizes[slot] = BigInt(item.rows)
    seqlens[slot] = item.past + item.rows - 1
    totals[slot] = item.past + item.rows
    const from = select.length
    for (const own of selectedRows(item)) select.push(BigInt(row + own))
    returned.push([from, select.length])
    row += item.rows
  })
  const spread = new BigInt64Array(row + slots - items.length)
  for (let at = 0; at < row; at++) spread[at] = BigInt(at)
  return { rows: row, spread, sizes, seqlens, totals, select: BigInt64Array.from(select), returned }
}

/** The smallest of the offered slot counts for `needed` sequences. @throws RangeError if there is none */
export function slotsFor<Slots extends number>(needed: number, offered: readonly Slots[]): Slots {
  const slots = [...offered].sort((a, b) => a - b).find((count) => count >= needed)
  if (slots === undefined) throw new RangeError(`${needed} sequences in one step; the maximum is ${Math.max(...offered)}`)
  return slots
}

function selectedRows({ rows, select }: PackedItem): readonly number[] {
  if (select === 'none') return []
  if (select === 'last') return [rows - 1]
  if (select === 'all') return Array.from({ length: rows }, (_, row) => row)
  const stray = select.find((row) => !(row >= 0 && row < rows))
  if (stray !== undefined) throw new RangeError(`row ${stray} is selected, but there are ${rows} new rows`)
  return select
}
