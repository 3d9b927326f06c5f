import { type Architecture, attentionOf, recurrentOf, type WeightFormat } from './architecture.ts'
import { type BundleFormats, partSpecs } from './build-options.ts'
import type { DrafterSpec } from './drafters.ts'
import { rowValuesOf } from './kv-shape.ts'
import { isDrafter, type WeightEntry } from './manifest.ts'
import { maxStates, stateValuesOf } from './state-shape.ts'
import { type PartPlan, planParts } from './weight-plan.ts'

/** Bytes of one side of a split model, without the program itself. */
export interface MemoryNeed {
  readonly weightBytes: number
  /** With the states of recurrent layers. */
  readonly kvBytes: number
}

export interface SplitNeeds {
  readonly device: MemoryNeed
  readonly bridge: MemoryNeed
}

export interface MemoryAssumptions {
  /** Of the bridge; a device has one. */
  readonly sessions: number
  /** Positions of each session. */
  readonly context: number
}

/** What a split model needs where the CPU computes: it computes in fp32, with copies of matrices that the library has packed. */
export function memoryNeeds(
  model: Architecture,
  formats: BundleFormats,
  split: number,
  drafters: readonly DrafterSpec[],
  { sessions, context }: MemoryAssumptions,
): SplitNeeds {
  const plans = planParts(partSpecs(model, formats, { split }, drafters))
  const middle = plans.filter(({ spec }) => spec.part === 'middle')
  const needOf = (own: readonly PartPlan[], count: number) => ({
    weightBytes: residentBytes(own),
    kvBytes: own.reduce((sum, plan) => sum + kvRowBytes(plan) * context + statesBytes(plan), 0) * count,
  })
  return {
    device: needOf(
      plans.filter((plan) => !middle.includes(plan)),
      1,
    ),
    bridge: needOf(middle, sessions),
  }
}

/**
 * Weights in memory: a matrix that is multiplied has one copy, packed; an embedding whose rows are gathered has another one if
 * it is the head, too. Drafters share both copies. Pages of a mapped embedding that no step has read are not in memory, but are counted.
 */
function residentBytes(plans: readonly PartPlan[]): number {
  const places = new Map<string, number>()
  let tied = 0
  for (const { spec, file, weights } of plans)
    for (const entry of weights) {
      const bytes = bytesInMemory(entry, spec.format)
      if (entry.file === file) places.set(`${file}:${entry.offset}`, bytes)
      else if (!isDrafter(spec.part)) tied += bytes
    }
  return [...places.values()].reduce((sum, bytes) => sum + bytes, tied)
}

/** The library computes float16 as float32 on the CPU; beside the scales of blocks it keeps their sums, as large, to compute in int8. */
function bytesInMemory({ name, type, bytes }: WeightEntry, { accuracyLevel }: WeightFormat): number {
  const hasSums = accuracyLevel === 4 && name.endsWith('.scales') && !name.startsWith('embedding.')
  return type === 'float16' || hasSums ? 2 * bytes : bytes
}

function kvRowBytes({ spec }: PartPlan): number {
  const { blocks, kvHeads, headDim } = attentionOf(spec)
  const layers = blocks - (recurrentOf(spec)?.layers ?? 0)
  return layers === 0 ? 0 : rowValuesOf({ layers, kvHeads, headDim }) * Float32Array.BYTES_PER_ELEMENT
}

/** Of one session, however long. */
function statesBytes({ spec }: PartPlan): number {
  const recurrent = recurrentOf(spec)
  return recurrent ? maxStates * stateValuesOf(recurrent) * Float32Array.BYTES_PER_ELEMENT : 0
}
