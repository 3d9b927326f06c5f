import { type Columns, picked, toColumns } from '../../frame/columns.ts'
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

/** One answer by its first and last token, in ms since the request; null where none came. */
export interface KeptFlowSample extends Pick<FlowSample, 'atMs' | 'promptTokens' | 'tokensPerS'> {
  readonly firstMs: number | null
  readonly lastMs: number | null
  readonly tokens: number
}

const keptSettings = ['measured', 'server', 'workload', 'seed', 'saturatedTokensPerS', 'fastBytes'] as const
/** What the simulator is validated with: such a run as a saved document keeps it. */
export type KeptFlowRun = Pick<FlowRun, (typeof keptSettings)[number]> & { readonly samples: Columns<KeptFlowSample> }

export function keptFlowRun(run: FlowRun): KeptFlowRun {
  const kept = run.samples.map((sample): KeptFlowSample => {
    const { arrivedMs } = sample
    const times = { firstMs: arrivedMs[0] ?? null, lastMs: arrivedMs.at(-1) ?? null, tokens: arrivedMs.length }
    return { ...picked(sample, ['atMs', 'promptTokens', 'tokensPerS']), ...times }
  })
  const samples = toColumns(kept, ['atMs', 'promptTokens', 'tokensPerS', 'firstMs', 'lastMs', 'tokens'])
  return { ...picked(run, keptSettings), samples }
}

/** A bridge whose fast tier holds all streams, so that nothing is preempted. */
export interface SaturatedFigures {
  readonly tokensPerS: number
  /** Time between steps over time in steps. */
  readonly overhead: number
}

/** Times to the first text at a bridge that was killed and started again, in ms. */
export interface RestartTurn {
  /** Of a prompt of 1,000 tokens that it has not seen. */
  readonly coldMs: number
  /** Of the rest of an answer to 1,000 tokens that was under way. */
  readonly continuedMs: number
  /** Of a prompt that goes on from 1,000 tokens that were answered before. */
  readonly nextTurnMs: number
  /** Rows that steps computed for the rest, and for the next turn, until their ends. */
  readonly continuedRows: number
  readonly nextTurnRows: number
}

/** The same load with and without write-through, in turn. */
export interface TierCosts {
  readonly turns: readonly { readonly withTier: SaturatedFigures; readonly without: SaturatedFigures }[]
}
