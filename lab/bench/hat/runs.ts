import { median } from '../../../core/policy/estimate/quantile.ts'
import type { LoggedStep } from '../../../core/wire/protocol/http/bridge.ts'
import { type Columns, picked, toColumns } from '../../frame/columns.ts'
import { groupBy, mean } from '../../frame/statistics.ts'
import type { RoundTimes } from './round-times.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** One request and its answer as its client received it; times in ms. */
export interface Sample {
  readonly prompt: string
  readonly promptTokens: number
  readonly tokens: number
  /** From the request to the first text. */
  readonly ttftMs: number
  /** Mean time between tokens; null below two tokens. */
  readonly tbtMs: number | null
  /** When each piece of text arrived, since the request. */
  readonly piecesMs: readonly number[]
  readonly rounds: number
  readonly acceptLength: number | null
  readonly reusedTokens: number
  readonly bytesUp: number
  readonly bytesDown: number
  /** What the device had measured of itself and its link. */
  readonly prefillTokensPerS: number | null
  readonly upBytesPerS: number | null
  readonly device: number
  /** When the request was sent, since the load began. */
  readonly atMs: number
  /** Whether the tokens equal the reference's; null where they need not (int8). */
  identical: boolean | null
  /** Tokens where only rounding decided between the reference's two most likely ones. */
  nearTies: number
  /** Whether the answer repeats itself (looping.ts); null where that was not recorded. */
  readonly looping: boolean | null
  /** One device alone: where the TTFT went, and its lower limit. */
  readonly prefill?: PrefillFigures
}

export interface PrefillFigures {
  /** TTFT by device, cloud and the rest, in ms. */
  readonly deviceMs: number
  readonly cloudMs: number
  readonly networkMs: number
  /** Lower limit of TTFT: input pass of the first chunk, upload by the link's trace, g of the last chunk, round trip, head. */
  readonly limitMs: number
}

export type Measured = 'loaded' | 'busy' | 'rates' | 'ablation' | 'alone' | 'rounds' | 'second-turn' | 'longest' | 'rtt'

export interface Utilisation {
  /** CPU time of the bridge process per second of its core; null where the system does not report it. */
  readonly bridge: number | null
  /** Likewise of agents, links and load, which share a core. */
  readonly others: number | null
  /** Likewise of all other processes on that core. */
  readonly foreign: number | null
  /** Share of the time in which the middle part was computing. */
  readonly computing: number
}

export interface HatRun {
  readonly measured: Measured
  readonly strategy: StrategyName
  readonly workload: WorkloadName
  readonly seed: number
  readonly devices: number
  readonly rttMs: number
  /** Requests per second of all devices together; null where requests follow each other. */
  readonly perS: number | null
  readonly utilisation: Utilisation | null
  /** The core of agents and load was so busy that the run measures the benchmark itself. */
  readonly isVoid: boolean
  readonly samples: readonly Sample[]
  /** Every step of the bridge. */
  readonly steps: readonly StepFigures[]
  /** The same for calibration. */
  readonly stepSizes: StepSizes
  /** Where its rounds went; absent: not recorded. */
  readonly roundTimes?: RoundTimes | undefined
}

export type StepFigures = Pick<LoggedStep, 'items' | 'tokens' | 'computeMs' | 'predictedMs'>

export interface StepSizes {
  /** Of the middle of an answer, mean over answers; null without any. */
  readonly position: number | null
  /** Steps of one size together, as items/tokens/number/median of computeMs, separated by spaces. */
  readonly sizes: string
}

const keptSettings = ['measured', 'strategy', 'workload', 'seed', 'devices', 'rttMs', 'perS', 'isVoid', 'stepSizes'] as const
const keptNames = ['atMs', 'device', 'promptTokens', 'tokens', 'ttftMs', 'tbtMs', 'tookMs', 'rounds', 'looping'] as const
export type KeptHatSample = Pick<Sample & { readonly tookMs: number }, (typeof keptNames)[number]>
/** What the simulator is calibrated and validated with: such a run as a saved document keeps it. */
export type KeptHatRun = Pick<HatRun, (typeof keptSettings)[number]> & { readonly samples: Columns<KeptHatSample> }

export function keptHatRun(run: HatRun): KeptHatRun {
  const ended = run.samples.map((sample) => ({ ...sample, tookMs: sample.piecesMs.at(-1) ?? sample.ttftMs }))
  return { ...picked(run, keptSettings), samples: toColumns(ended, keptNames) }
}

export function stepSizesOf({ samples, steps }: Pick<HatRun, 'samples' | 'steps'>): StepSizes {
  const groups = groupBy(steps, ({ items, tokens }) => `${items}/${tokens}`)
  const sizes = groups.map((group) => {
    const [{ items, tokens }] = group as [StepFigures]
    return `${items}/${tokens}/${group.length}/${median(group.map(({ computeMs }) => computeMs)).toFixed(3)}`
  })
  return { position: mean(samples.map(({ promptTokens, tokens }) => promptTokens + tokens / 2)), sizes: sizes.join(' ') }
}
