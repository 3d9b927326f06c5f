import type { KvTiers } from './kv-tiers.ts'
import type { ServingSpeeds, ServingState } from './policy.ts'
import type { ServedStreams } from './served-streams.ts'
import type { ServingMachineOptions } from './serving-rules.ts'
import type { ServingSteps } from './serving-steps.ts'

/**
 * What a policy sees of a serving machine. Made once, because its parts are collected when they are read.
 * @returns call it for each plan: its speeds stay the same until then
 */
export function servingView(
  streams: ServedStreams,
  tiers: KvTiers,
  steps: ServingSteps,
  { step, whatIf, tiers: { slowBytes: budgetBytes } }: ServingMachineOptions,
): () => ServingState {
  let speeds: ServingSpeeds | undefined
  const state: ServingState = {
    get waiting() {
      return streams.waiting
    },
    get idle() {
      return streams.idle
    },
    get cached() {
      return streams.memory.cached
    },
    memory: tiers.usage,
    get leavingBytes() {
      return tiers.leavingBytes
    },
    slow: streams.hasSlowTier ? { budgetBytes } : undefined,
    get speeds() {
      speeds ??= {
        ...steps.speeds.speeds,
        stepSOf: (rows) => steps.speeds.secondsOf(rows),
        evictBytesPerS: tiers.pages.bytesPerS.value,
        loadBytesPerS: tiers.loadBytesPerS.value,
        ...whatIf?.speeds,
      }
      return speeds
    },
    step,
    get lastDecodeMs() {
      return steps.lastDecodeMs
    },
  }
  return () => {
    speeds = undefined
    return state
  }
}
