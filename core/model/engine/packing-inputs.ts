import { graphInputs, slotInputs, treeNames } from '../bundle/graph-io.ts'
import { groupedBias, groupedPositions, type PackedItem, type Packing } from './part-packing.ts'
import type { PartSource } from './part-sessions.ts'
import { RowTree } from './row-tree.ts'
import type { Runtime, Tensor } from './runtime.ts'

/** Inputs of one step, by name: the functions below add those that describe its slots. See graph-io.ts. */
type Inputs = Map<string, Tensor>

/** New rows of an item, and how many rows attention reads for them. */
type AttendedItem = Required<Pick<PackedItem, 'rows' | 'past' | 'attended'>>

export function addPacking(
  { name, padsAttention, runtime }: PartSource,
  inputs: Inputs,
  packing: Packing,
  select: BigInt64Array,
  slots: number,
): void {
  const { rows, spread, sizes, keep, seqlens, totals } = packing
  const add = (input: string, values: BigInt64Array) => inputs.set(input, runtime.tensor('int64', [values.length], values))
  if (name !== 'input') add(graphInputs.select, select)
  if (padsAttention) add(graphInputs.keep, keep)
  if (runtime.device && slots > 1) {
    addSlots(runtime, inputs, packing, slots)
    return
  }
  inputs.set(graphInputs.seqlens, runtime.tensor('int32', [slots], seqlens))
  inputs.set(graphInputs.totals, runtime.tensor('int32', [slots], totals))
  if (slots > 1) add(graphInputs.sizes, sizes)
  if (slots > 1 || padsAttention) add(graphInputs.spread, spread)
  if (slots > 1 && !padsAttention) add(graphInputs.tokens, BigInt64Array.of(BigInt(rows)))
}

/** See `slotInputs`. */
function addSlots(runtime: Runtime, inputs: Inputs, { seqlens, totals, spread, sizes }: Packing, slots: number): void {
  let from = 0
  for (let slot = 0; slot < slots; slot++) {
    const names = slotInputs(slot)
    const to = from + Number(sizes[slot])
    inputs.set(names.seqlen, runtime.tensor('int32', [1], seqlens.subarray(slot, slot + 1)))
    inputs.set(names.total, runtime.tensor('int32', [1], totals.subarray(slot, slot + 1)))
    inputs.set(names.spread, runtime.tensor('int64', [to - from], spread.subarray(from, to)))
    from = to
  }
}

/** The rows that recurrent layers read: each once. An unused slot reads packed row 0, and padding rows repeat its result. */
export function addOwnRows(
  { runtime }: PartSource,
  inputs: Inputs,
  rows: number,
  counts: readonly number[],
  slots: number,
): void {
  const add = (input: string, values: readonly number[]) =>
    inputs.set(input, runtime.tensor('int64', [values.length], BigInt64Array.from(values, BigInt)))
  const own = counts.reduce((sum, count) => sum + count, 0)
  const each = Array.from({ length: rows }, (_, row) => (row < own ? row : 0))
  add(graphInputs.ownKeep, each)
  add(graphInputs.ownRows, [...each.slice(0, own), ...Array<number>(slots - counts.length).fill(0)])
  if (slots > 1)
    add(
      graphInputs.ownSizes,
      Array.from({ length: slots }, (_, slot) => counts[slot] ?? 1),
    )
}

/** Positions and attention bias of the rows that attention reads. An unused slot has one row, which attends to itself. */
export function addBranches(
  { runtime, manifest }: PartSource,
  inputs: Inputs,
  grown: readonly RowTree[],
  work: readonly AttendedItem[],
  slots: number,
): void {
  const { window, windowOnly = false } = manifest
  for (let slot = 0; slot < slots; slot++) {
    const { rows: own, attended: count } = work[slot] ?? { rows: 1, attended: 1 }
    const rows = (grown[slot] ?? RowTree.lineOf(1)).extended(count - own)
    const from = rows.length - count
    const names = treeNames(slot)
    inputs.set(names.positions, runtime.tensor('int64', [1, count], rows.positionsFrom(from)))
    const bias = (within?: number) => runtime.tensor('float32', [1, 1, count, rows.length], rows.biasFrom(from, within))
    if (!windowOnly) inputs.set(names.bias, bias())
    if (window !== undefined) inputs.set(names.windowBias, bias(window))
  }
}

/** The same of a `grouped` graph. */
export function addGrouped(
  { runtime }: PartSource,
  inputs: Inputs,
  work: readonly AttendedItem[],
  slots: number,
  group: number,
): void {
  for (let slot = 0; slot < slots; slot++) {
    const { rows, past } = work[slot] ?? { rows: 1, past: 0 }
    const read = slot < work.length ? group : 1
    const names = treeNames(slot)
    inputs.set(names.positions, runtime.tensor('int64', [1, read * rows], groupedPositions(past, rows, read)))
    const bias = groupedBias(past, rows, read)
    inputs.set(names.bias, runtime.tensor('float32', [1, 1, read * rows, past + read * rows], bias))
  }
}
