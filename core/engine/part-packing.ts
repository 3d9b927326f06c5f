import type { StepItem } from './contract.ts'

export interface PackedItem {
  /** New rows. */
  readonly rows: number
  /** Positions that its sequence holds already. */
  readonly past: number
  readonly select: StepItem['select']
}

/** What a packed graph is told about its slots: see graph-io.ts. */
export interface Packing {
  /** Of all items. */
  readonly rows: number
  readonly spread: BigInt64Array
  readonly sizes: BigInt64Array
  readonly seqlens: Int32Array
  readonly totals: Int32Array
  /** Packed rows that are returned. */
  readonly select: BigInt64Array
  /** Per item, where its rows lie among the returned ones: [from, to). */
  readonly returned: readonly (readonly [number, number])[]
}

/** Lays the items' rows one after another; slots that nobody uses come last and work on packed row 0. */
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

/** The smallest of `offered` that holds `needed` sequences. @throws RangeError when none does */
export function slotsFor<Slots extends number>(needed: number, offered: readonly Slots[]): Slots {
  const slots = [...offered].sort((a, b) => a - b).find((count) => count >= needed)
  if (slots === undefined) throw new RangeError(`${needed} sequences in one step; ${Math.max(...offered)} are possible`)
  return slots
}

function selectedRows({ rows, select }: PackedItem): readonly number[] {
  if (select === 'none') return []
  if (select === 'last') return [rows - 1]
  if (select === 'all') return Array.from({ length: rows }, (_, row) => row)
  const stray = select.find((row) => !(row >= 0 && row < rows))
  if (stray !== undefined) throw new RangeError(`row ${stray} was selected of ${rows} new ones`)
  return select
}
