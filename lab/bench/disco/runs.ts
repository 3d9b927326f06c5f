import { groupBy, mean } from '../../frame/statistics.ts'
import type { PromptSet } from './data.ts'
import type { MethodName } from './methods.ts'

/** What a method does at one budget, with one device against one trace. */
interface Setting {
  readonly trace: string
  /** Name of the device's profile. */
  readonly device: string
  readonly method: MethodName
  /** b; null where a method uses one side. */
  readonly budget: number | null
}

/** Of races for the first token. */
export interface TtftSetting extends Setting {
  readonly measured: 'ttft'
  readonly prompts: PromptSet
}

/** Of whole answers, delivered at the reader's rate. */
export interface CostSetting extends Setting {
  readonly measured: 'cost'
  /** Key of `servicePrices`. */
  readonly prices: string
  readonly lengths: AnswerLengths
}

/** Of answers: as in the Alpaca data, or all at the paper's limit. */
export const answerLengths = ['alpaca', 'limit'] as const
export type AnswerLengths = (typeof answerLengths)[number]

/** The figures of one setting and seed. */
export interface TtftFigures {
  readonly meanMs: number
  readonly p99Ms: number
  /** The lowest that any dispatcher could reach with this budget; NaN: the method has none. */
  readonly leastP99Ms: number
  /** Share of all prompt tokens that the constrained side has begun to process. */
  readonly share: number
}

export interface CostFigures {
  /** Per 10⁶ answers, tokens that were thrown away included. */
  readonly dollars: number
  /** TTFT. */
  readonly meanMs: number
  readonly p99Ms: number
  /** The same without migration. */
  readonly dollarsAlone: number
  /** The least that migration could reach. */
  readonly dollarsLeast: number
  readonly meanMsAlone: number
  readonly p99MsAlone: number
  /** Attempts to migrate that were given up, per answer. */
  readonly failedMigrations: number
  /** Share of the answers that migrated; the figures that follow are of these. */
  readonly migrated: number
  /** Tokens of an answer that were delivered later than at the reader's rate. */
  readonly delayedMean: number
  readonly delayedP99: number
  /** P99 of the gaps between two tokens. */
  readonly tbtP99Ms: number
}

export interface SeedRun {
  readonly setting: TtftSetting | CostSetting
  /** NaN: there is nothing of this kind. */
  readonly figures: TtftFigures | CostFigures
}

/**
 * One value per seed, as text, which keeps a document of thousands of runs small; of whole answers only costs have one per seed,
 * and the others their mean. Empty: there is none.
 */
export type PerSeed = string

type BySeed<Figures> = { readonly [Name in keyof Figures]: PerSeed }
export type TtftRun = TtftSetting & BySeed<TtftFigures>
export type CostRun = CostSetting & BySeed<CostFigures>

export const valuesOf = (series: PerSeed): number[] => (series === '' ? [] : series.split(' ').map(Number))

/** @param seeds the runs of each seed */
export function mergeSeeds(seeds: readonly (readonly SeedRun[])[]): (TtftRun | CostRun)[] {
  return groupBy(seeds.flat(), ({ setting }) => JSON.stringify(setting)).map((runs) => {
    const [{ setting, figures }] = runs as [SeedRun]
    const merged = Object.keys(figures).map((name) => {
      const all = runs.map((run) => run.figures[name as keyof SeedRun['figures']]).filter((value) => !Number.isNaN(value))
      const isKept = setting.measured === 'ttft' || name.startsWith('dollars')
      const values = isKept ? all : [mean(all) ?? Number.NaN].filter((value) => !Number.isNaN(value))
      return [name, values.map((value) => Number(value.toPrecision(4))).join(' ')]
    })
    return { ...setting, ...Object.fromEntries(merged) } as TtftRun | CostRun
  })
}
