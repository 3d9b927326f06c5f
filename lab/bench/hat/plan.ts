import { ablation, compared, type StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** How much is measured. */
export interface Plan {
  readonly seeds: readonly number[]
  readonly devices: number
  readonly maxTokens: number
  /** Distinct prompts of each workload. */
  readonly prompts: number
  readonly loaded: Readonly<Record<WorkloadName, LoadPlan>>
  /** With the first seed: the ablation's rows that are not compared anyway. */
  readonly ablation: readonly StrategyName[]
  /** With the first seed: other rates, as multiples of the one above, for every strategy that is compared. */
  readonly otherRates: readonly number[]
  readonly alone: AlonePlan
  /** Asked alone at other round trips. */
  readonly otherRtts: { readonly rttsMs: readonly number[]; readonly strategies: readonly StrategyName[] }
}

export interface LoadPlan {
  readonly strategies: readonly StrategyName[]
  readonly requests: number
  /** Of all devices together. */
  readonly perS: number
}

/** How many prompts are asked one after the other. */
export interface AlonePlan {
  readonly strategies: readonly StrategyName[]
  readonly short: number
  readonly long: number
  /** Most tokens of their answers. */
  readonly longTokens: number
  readonly secondTurns: number
  /** Tokens of the turn before. */
  readonly firstTurnTokens: number
  /** As long as prompts may be. */
  readonly longest: number
}

/**
 * The paper has 6 and 4 requests a second of 30 devices. Fewer devices at the same pace would leave the cloud idle; these
 * rates are a compromise between as much of the cloud and as much of each link, and the use of both is told.
 */
const devices = 8
const perS = { short: 3.2, long: 1.6 }
const aloneStrategies: readonly StrategyName[] = ['hat', 'hat-int8', 'u-shape', 'u-shape-lean', 'u-medusa']
const ablated: readonly StrategyName[] = ablation.map(({ strategy }) => strategy)

export const fullPlan: Plan = {
  seeds: [1, 2, 3],
  devices,
  maxTokens: 128,
  prompts: 20,
  loaded: {
    short: { strategies: compared, requests: 40, perS: perS.short },
    long: { strategies: compared, requests: 24, perS: perS.long },
  },
  ablation: ablated.filter((strategy) => !(compared as readonly StrategyName[]).includes(strategy)),
  otherRates: [9 / 6],
  alone: { strategies: aloneStrategies, short: 8, long: 6, longTokens: 128, secondTurns: 3, firstTurnTokens: 1_037, longest: 2 },
  otherRtts: { rttsMs: [5, 60], strategies: ['hat', 'u-shape'] },
}

/** Every figure of the summary, from fewer samples. */
export const quickPlan: Plan = {
  ...fullPlan,
  seeds: [1],
  prompts: 8,
  loaded: {
    short: { strategies: compared, requests: 20, perS: perS.short },
    long: { strategies: ['hat', 'u-shape'], requests: 10, perS: perS.long },
  },
  ablation: [],
  otherRates: [],
  alone: {
    ...fullPlan.alone,
    strategies: ['hat', 'hat-int8', 'u-shape'],
    short: 3,
    long: 3,
    longTokens: 32,
    secondTurns: 1,
    longest: 1,
  },
  otherRtts: { rttsMs: [], strategies: [] },
}
