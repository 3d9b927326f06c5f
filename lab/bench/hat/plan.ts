import { onlyNamed, seedsFrom } from '../../frame/options.ts'
import { ablation, attribution, compared, type StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** What is measured, and how often. */
export interface Plan {
  readonly seeds: readonly number[]
  readonly devices: number
  readonly maxTokens: number
  /** Number of distinct prompts per workload. */
  readonly prompts: number
  readonly loaded: Readonly<Record<WorkloadName, LoadPlan>>
  /** A bridge whose model has so many layers, of which those after the demonstration model's change nothing, at the same rates. */
  readonly busy: { readonly layers: number; readonly strategies: readonly StrategyName[]; readonly requests: number }
  /** Rows of the ablation that `loaded` does not hold; measured with the first seed. */
  readonly ablation: readonly StrategyName[]
  /** Further rates, as multiples of those in `loaded`; measured with the first seed. */
  readonly otherRates: readonly number[]
  readonly alone: AlonePlan
  /** Answers to short prompts whose rounds are taken apart. */
  readonly rounds: { readonly strategies: readonly StrategyName[]; readonly prompts: number }
  /** Answers whose drafts are compared with those of hindsight; lengths in tokens. */
  readonly drafts: { readonly prompts: number; readonly promptTokens: number; readonly maxTokens: number }
  /** One device alone at other round-trip times. */
  readonly otherRtts: { readonly rttsMs: readonly number[]; readonly strategies: readonly StrategyName[] }
}

interface LoadPlan {
  readonly strategies: readonly StrategyName[]
  readonly requests: number
  /** Requests per second of all devices together. */
  readonly perS: number
}

/** Numbers of prompts for one device alone, asked one after the other. */
interface AlonePlan {
  readonly strategies: readonly StrategyName[]
  readonly short: number
  readonly long: number
  /** Maximum length of an answer to a long prompt, in tokens. */
  readonly longTokens: number
  readonly secondTurns: number
  readonly firstTurnTokens: number
  /** Prompts of maximum length. */
  readonly longest: number
}

/**
 * The paper has 30 devices with 6 and 4 requests per second together. Eight devices at the same pace would leave the cloud
 * idle; these rates load both the cloud and the links, and the document holds the use of the cores.
 */
const devices = 8
const perS = { short: 3.2, long: 1.6 }
const attributed = Object.values(attribution).flatMap((parts) => parts.map(({ strategy }): StrategyName => strategy))
const aloneStrategies: readonly StrategyName[] = [...new Set<StrategyName>(['hat', 'hat-paper', ...attributed, 'u-medusa'])]
const ablated: readonly StrategyName[] = ablation.map(({ strategy }) => strategy)

export const fullPlan: Plan = {
  seeds: [1, 2, 3],
  devices,
  maxTokens: 128,
  prompts: 40,
  loaded: {
    short: { strategies: compared, requests: 40, perS: perS.short },
    long: { strategies: compared, requests: 40, perS: perS.long },
  },
  busy: { layers: 36, strategies: ['hat', 'hat-fixed', 'u-shape'], requests: 40 },
  ablation: ablated.filter((strategy) => !(compared as readonly StrategyName[]).includes(strategy)),
  otherRates: [9 / 6],
  alone: { strategies: aloneStrategies, short: 8, long: 6, longTokens: 128, secondTurns: 3, firstTurnTokens: 1_037, longest: 2 },
  rounds: { strategies: ['hat', 'u-shape'], prompts: 8 },
  drafts: { prompts: 40, promptTokens: 160, maxTokens: 96 },
  otherRtts: { rttsMs: [5, 60], strategies: ['hat', 'u-shape'] },
}

/** Every figure of the summary, from fewer samples. */
export const quickPlan: Plan = {
  ...fullPlan,
  seeds: [1],
  prompts: 20,
  loaded: {
    short: { strategies: compared, requests: 20, perS: perS.short },
    long: { strategies: ['hat', 'u-shape'], requests: 20, perS: perS.long },
  },
  busy: { ...fullPlan.busy, strategies: ['hat', 'u-shape'], requests: 12 },
  ablation: [],
  otherRates: [],
  alone: {
    ...fullPlan.alone,
    strategies: ['hat', 'hat-fp16', 'hat-int8', 'u-shape'],
    short: 3,
    long: 3,
    longTokens: 32,
    secondTurns: 1,
    longest: 1,
  },
  rounds: { ...fullPlan.rounds, prompts: 3 },
  drafts: { ...fullPlan.drafts, prompts: 6 },
  otherRtts: { rttsMs: [], strategies: [] },
}

/** What the command line gives; undefined: as planned. */
interface Restrictions {
  readonly strategies?: readonly StrategyName[] | undefined
  readonly seeds?: number | undefined
  /** Factor of the request rates. */
  readonly rate: number
}

export function restrictedPlan(plan: Plan, { strategies, seeds, rate }: Restrictions): Plan {
  const only = <Part extends { readonly strategies: readonly StrategyName[] }>(part: Part): Part => ({
    ...part,
    strategies: onlyNamed(part.strategies, strategies),
  })
  const loaded = (part: LoadPlan): LoadPlan => ({ ...only(part), perS: rate * part.perS })
  return {
    ...plan,
    seeds: seedsFrom(seeds, plan.seeds),
    loaded: { short: loaded(plan.loaded.short), long: loaded(plan.loaded.long) },
    ablation: onlyNamed(plan.ablation, strategies),
    busy: only(plan.busy),
    alone: only(plan.alone),
    rounds: only(plan.rounds),
    otherRtts: only(plan.otherRtts),
  }
}
