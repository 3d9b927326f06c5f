import type { ServerName } from './servers.ts'
import type { FlowSample } from './timeline.ts'
import type { WorkloadName } from './workload.ts'

/** Purpose of a run: policies compared, reading rates, crowds of readers, or what each technique of the KV tiers gives. */
export type Measured = 'compared' | 'rates' | 'crowds' | 'ablation'

/** One workload at one bridge. */
export interface FlowRun {
  readonly measured: Measured
  readonly server: ServerName
  readonly workload: WorkloadName
  readonly seed: number
  /** What the bridge generates per second while it is saturated, measured before the runs of this seed. */
  readonly saturatedTokensPerS: number
  /** Bytes of the fast tier, and of all requests' KV over that. */
  readonly fastBytes: number
  readonly overcommitment: number
  /** Use of the cores, per second of each; null where the system does not report it. */
  readonly bridgeCore: number | null
  readonly readersCore: number | null
  readonly samples: readonly FlowSample[]
}

/** A bridge whose fast tier holds all streams, so that nothing is preempted. */
export interface SaturatedFigures {
  readonly tokensPerS: number
  /** Time between steps over time in steps. */
  readonly overhead: number
}

/** The same load with and without write-through, in turn. */
export interface TierCosts {
  readonly turns: readonly { readonly withTier: SaturatedFigures; readonly without: SaturatedFigures }[]
}
