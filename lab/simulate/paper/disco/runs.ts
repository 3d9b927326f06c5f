import { z } from 'zod'
import { costOf } from '../../../../core/policy/disco/costs.ts'
import type { ReportedSide } from '../../../../core/policy/disco/state.ts'
import { median } from '../../../../core/policy/estimate/quantile.ts'
import type { BenchContext } from '../../../frame/bench.ts'
import { select } from '../../../frame/runs.ts'
import { mean } from '../../../frame/statistics.ts'
import type { ScenarioResult } from '../../run/result.ts'
import { publishedAs } from '../paper-file.ts'
import type { PaperRun } from '../quantity.ts'
import { meanOver, runSettings } from '../run-scenarios.ts'
import { fill } from '../text.ts'
import { measurePlans, type PlanTimes, sampleCounts } from './plan-times.ts'
import { deviceProfiles, paper } from './profiles.ts'
import { type Method, paperPatience, type Setting, scenarioOf, settingsOf } from './settings.ts'

export const constrainedSides: readonly ReportedSide[] = ['server', 'device']

/** Of races for the first token: means over the seeds. 'tail': with another α. */
export interface TtftRun extends Setting {
  readonly measured: 'ttft' | 'tail'
  readonly meanMs: number
  readonly p99Ms: number
}

/** Of whole answers: means over the seeds. 'overhead': with another t_m. */
export interface CostRun extends Setting {
  readonly measured: 'cost' | 'overhead'
  /** Per 10⁶ answers, of both sides. */
  readonly dollars: number
  /** Per answer. */
  readonly migrations: number
  /** Tokens that the reader had in hand at a migration; null: there was none. */
  readonly bufferedMean: number | null
  readonly bufferedP99: number | null
  /** Of all gaps between delivered tokens. */
  readonly tbtP99Ms: number
  /** Late because of migrations, per answer. */
  readonly delayedTokens: number
}

/** Measured on this machine, not simulated. */
export interface PlanRun {
  readonly measured: 'plan'
  readonly times: PlanTimes
}

export type Run = TtftRun | CostRun | PlanRun

export interface Plan {
  readonly isQuick: boolean
  readonly seeds: number
  /** Of each setting of races for the first token, and of whole answers. */
  readonly ttft: { readonly requests: number }
  readonly cost: { readonly requests: number; readonly seeds: number }
  /** Of Fig. 9. */
  readonly batches: number
}

/** The paper: 1,000 requests, means of ten runs. */
export const fullPlan: Plan = {
  ...{ isQuick: false, seeds: 10, ttft: { requests: 1_000 }, cost: { requests: 200, seeds: 3 }, batches: 200 },
}
export const quickPlan: Plan = {
  ...{ isQuick: true, seeds: 2, ttft: { requests: 1_000 }, cost: { requests: 60, seeds: 1 }, batches: 100 },
}

/** @param context its progress throws once the command was interrupted */
export async function runPlan(
  { isQuick, seeds, ttft, cost, batches }: Plan,
  context: Pick<BenchContext, 'io' | 'progress'>,
): Promise<Run[]> {
  const firstTokens = { seeds, requests: ttft.requests, answers: 1, figuresOf: ttftsOf }
  const whole = { ...cost, answers: paper.constants.outputTokens!, figuresOf: costsOf }
  const kinds = { ttft: firstTokens, tail: firstTokens, cost: whole, overhead: whole }
  const each = (setting: Setting) => {
    const { seeds, requests, answers } = kinds[setting.measured]
    return { seeds, withSeed: (seed: number) => scenarioOf(setting, seed, requests, answers) }
  }
  const measured = await runSettings(settingsOf(isQuick), each, context)
  return [
    ...measured.map(({ setting, results }) => ({ ...setting, ...kinds[setting.measured].figuresOf(setting, results) }) as Run),
    ...sampleCounts.flatMap((samples) =>
      constrainedSides.map((side): PlanRun => ({ measured: 'plan', times: measurePlans(side, samples, batches) })),
    ),
  ]
}

function ttftsOf(_: Setting, results: readonly ScenarioResult[]) {
  const mean = meanOver(results)
  return { meanMs: mean(({ all }) => all.ttftMs.mean), p99Ms: mean(({ all }) => all.ttftMs.p99) }
}

function costsOf(setting: Setting, results: readonly ScenarioResult[]) {
  const device = scenarioOf(setting, 1, 1, 1).policies.disco.deviceDollarsPerToken!
  const mean = meanOver(results)
  const orNull = (value: number) => (Number.isNaN(value) ? null : value)
  return {
    dollars: mean(({ all }) => {
      const { dollars, devicePromptTokens: promptTokens, deviceOutputTokens: tokens } = all.work
      return (1e6 * (dollars + costOf(device, { promptTokens, tokens }))) / all.answered
    }),
    migrations: mean(({ all }) => all.work.migrations / all.answered),
    bufferedMean: orNull(mean(({ all }) => all.bufferedTokens.mean)),
    bufferedP99: orNull(mean(({ all }) => all.bufferedTokens.p99)),
    tbtP99Ms: mean(({ all }) => all.tbtMs.p99),
    delayedTokens: mean(({ all }) => all.work.delayedTokens / all.answered),
  }
}

/** The runs, and what the paper's figures need beside them. */
export function comparedRuns(runs: readonly Run[]): readonly PaperRun[] {
  const ttft = runs.filter((run): run is TtftRun => run.measured === 'ttft' || run.measured === 'tail')
  const cost = runs.filter((run): run is CostRun => run.measured === 'cost' || run.measured === 'overhead')
  const races = ttft.filter(({ measured }) => measured === 'ttft')
  const cuts = (['beside', 'alone'] as const).flatMap((against) =>
    comparisonsOf(races, against).map((cut) => ({
      ...{ measured: 'cut', against, ...cut, at: deviceProfiles.findIndex(({ name }) => name === cut.device) },
      ...{ p99CutPercent: 100 * cut.p99Cut, meanCutPercent: 100 * cut.meanCut, meanOver: 1 - cut.meanCut },
    })),
  )
  return [
    ...ttft.map((run) => ({ ...run, meanS: run.meanMs / 1_000 })),
    ...cost.map((run) => ({ ...run, tbtP99S: run.tbtP99Ms / 1_000 })),
    ...cuts,
    tableErrors(cuts),
    ...otherWaits(cost.filter(({ measured }) => measured === 'overhead')),
    ...runs.flatMap((run) => (run.measured === 'plan' ? planTimes(run) : [])),
  ]
}

const bySide = z.record(z.string(), z.record(z.string(), z.array(z.number())))

/** Of Table 2 with its columns turned round, and as they are in the paper. */
function tableErrors(cuts: readonly PaperRun[]): PaperRun {
  const cells = Object.entries(publishedAs(paper, 'tailCuts', bySide)).flatMap(([server, sides]) =>
    Object.entries(sides).flatMap(([constrained, row]) =>
      row.map((turned, at) => {
        const own = select(cuts, { against: 'beside', server, constrained, at })
        return { turned, asPrinted: row.toReversed()[at]!, ours: mean(own.map(({ p99CutPercent }) => p99CutPercent as number))! }
      }),
    ),
  )
  const error = (column: 'turned' | 'asPrinted') => Math.sqrt(mean(cells.map((cell) => (cell.ours - cell[column]) ** 2))!)
  return { measured: 'error of Table 2', turned: error('turned'), asPrinted: error('asPrinted') }
}

/** A plan beside a method by chance, with the same server, device, limited side and budget. */
interface Comparison extends Pick<Setting, 'server' | 'device' | 'constrained' | 'budget'> {
  /** 1 − P99 over that of chance. */
  readonly p99Cut: number
  readonly meanCut: number
}

export function comparisonsOf(runs: readonly TtftRun[], method: Exclude<Method, 'plan'>): Comparison[] {
  const key = ({ server, device, constrained, budget }: Setting) => [server, device, constrained, budget].join('\n')
  const byKey = new Map(runs.filter((run) => run.method === method).map((run) => [key(run), run]))
  return runs.flatMap((run) => {
    const other = run.method === 'plan' ? byKey.get(key(run)) : undefined
    if (!other) return []
    const { server, device, constrained, budget, meanMs, p99Ms } = run
    return [{ server, device, constrained, budget, p99Cut: 1 - p99Ms / other.p99Ms, meanCut: 1 - meanMs / other.meanMs }]
  })
}

const migrations = publishedAs(paper, 'migrations', bySide)
const waitFigures = {
  bufferedMean: (run: CostRun) => run.bufferedMean,
  bufferedP99: (run: CostRun) => run.bufferedP99,
  tbtP99S: (run: CostRun) => run.tbtP99Ms / 1_000,
}

/** Of each figure of Table 3: what another t_m gives. */
const otherWaits = (runs: readonly CostRun[]): readonly PaperRun[] =>
  Object.entries(migrations).flatMap(([server, sides]) =>
    Object.entries(sides).flatMap(([constrained, values]) => {
      const own = runs.filter((run) => run.server === server && run.constrained === constrained)
      return Object.entries(waitFigures).map(([figure, value], at) => {
        const tried = own.filter((run) => value(run) !== null)
        const text = otherWaitText(tried, (run) => value(run)!, values[at]!)
        return { measured: 'other t_m', server, constrained, figure, text }
      })
    }),
  )

function otherWaitText(tried: readonly CostRun[], value: (run: CostRun) => number, wanted: number): string {
  const ofAnswer = tried.filter(({ migrationCounts }) => migrationCounts === 'answer').map(value)
  if (ofAnswer.length > 0)
    return fill('with t_m of prompt and answer, in place of the prompt alone, it is {found:3g}', { found: mean(ofAnswer) })
  const distance = (run: CostRun) => Math.abs(Math.log(value(run) / wanted))
  const [nearest] = tried.toSorted((a, b) => distance(a) - distance(b))
  if (!nearest) return 'no answer moved in the runs with other t_m'
  return fill(
    't_m here is enough for {own:1} % of this stand-in’s starts, as for all servers; enough for {other:1} % it gives {found:3g}',
    { own: 100 * paperPatience, other: 100 * nearest.patience!, found: value(nearest) },
  )
}

function planTimes({ times: { constrained, samples, sortedMs, planUs } }: PlanRun): readonly PaperRun[] {
  const of = { measured: 'plan time', samples, kind: constrained === 'server' ? 'S' : 'D' }
  return [
    { ...of, way: 'paper', ms: median(sortedMs) },
    { ...of, way: 'brim', ms: median(planUs) / 1_000 },
  ]
}
