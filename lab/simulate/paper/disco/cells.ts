import type { ReportedSide } from '../../../../core/policy/disco/state.ts'
import { median } from '../../../../core/policy/estimate/quantile.ts'
import type { BenchDocument } from '../../../frame/bench.ts'
import { explained, type PaperCell, written } from '../comparison.ts'
import { largestCostCut, migrations, tailCuts } from './paper-figures.ts'
import { paperPlanMs } from './plan-times.ts'
import { deviceProfiles } from './profiles.ts'
import type { CostRun, PlanRun, Run, TtftRun } from './runs.ts'
import { paperServers } from './servers.ts'
import { constrainedSides, type Method, otherTailShare, paperPatience, type Setting } from './settings.ts'

export const ttftRuns = ({ runs }: BenchDocument) =>
  (runs as readonly Run[]).filter((run): run is TtftRun => run.measured === 'ttft')
export const costRuns = ({ runs }: BenchDocument) =>
  (runs as readonly Run[]).filter((run): run is CostRun => run.measured === 'cost')
const overheadRuns = ({ runs }: BenchDocument) =>
  (runs as readonly Run[]).filter((run): run is CostRun => run.measured === 'overhead')
const tailRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run): run is TtftRun => run.measured === 'tail')
const planRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run): run is PlanRun => run.measured === 'plan')

export function cellsOf(document: BenchDocument): PaperCell[] {
  return [
    ...tailCells(ttftRuns(document)),
    ...migrationCells(costRuns(document), overheadRuns(document)),
    ...meanCells(ttftRuns(document)),
    ...costCells(costRuns(document)),
    ...planCells(planRuns(document)),
  ]
}

/** A plan beside a method by chance, with the same server, device, limited side and budget. */
export interface Comparison extends Pick<Setting, 'server' | 'device' | 'constrained' | 'budget'> {
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

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null)

/** Servers and limited sides, as the rows of Tables 2 and 3. */
const rows = paperServers.flatMap(({ name }) => constrainedSides.map((constrained) => ({ server: name, constrained })))
const named = (server: string, constrained: ReportedSide) => `${server}, ${constrained} limited`
const isOf =
  (server: string, constrained: ReportedSide) => (run: { readonly server: string; readonly constrained: ReportedSide }) =>
    run.server === server && run.constrained === constrained

function tailCells(runs: readonly TtftRun[]): PaperCell[] {
  const comparisons = comparisonsOf(runs, 'beside')
  return rows.flatMap(({ server, constrained }) =>
    deviceProfiles.map(({ name }, at) => {
      const own = comparisons.filter((each) => isOf(server, constrained)(each) && each.device === name)
      const ours = 100 * meanOf(own.map(({ p99Cut }) => p99Cut))
      const cell = { place: 'Table 2', metric: 'cut of P99 TTFT', paper: tailCuts[server]![constrained][at]!, ours, unit: '%' }
      return explained({ ...cell, row: `${named(server, constrained)}, ${name}` }, tailRemark(server, constrained))
    }),
  )
}

function tailRemark(server: string, constrained: ReportedSide): string {
  if (server === 'DeepSeek' && constrained === 'server')
    return 'a few points of nearly nothing: the device is before nine of ten of this server’s starts'
  return 'the stand-in’s tail: two points more of slow starts change a cut by up to ten points'
}

function migrationCells(runs: readonly CostRun[], others: readonly CostRun[]): PaperCell[] {
  return rows.flatMap(({ server, constrained }): PaperCell[] => {
    const of = (migrates: CostRun['migrates'], value: (run: CostRun) => number | null) => {
      const values = known(runs.filter((run) => isOf(server, constrained)(run) && run.migrates === migrates).map(value))
      return values.length === 0 ? undefined : meanOf(values)
    }
    const [mean, p99, tbtS] = migrations[server]![constrained]
    const own = others.filter(isOf(server, constrained))
    const cell = (metric: string, paper: number, value: (run: CostRun) => number | null, unit: string): PaperCell[] => {
      const ours = of('paper', value)
      const improved = of('brim', value)
      const cells = { place: 'Table 3', row: named(server, constrained), metric, paper, unit }
      if (ours === undefined) return []
      return [explained({ ...cells, ours, ...(improved !== undefined && { improved }) }, overheadRemark(own, paper, value))]
    }
    return [
      ...cell('delay_num, mean', mean, (run) => run.bufferedMean, 'tokens'),
      ...cell('delay_num, P99', p99, (run) => run.bufferedP99, 'tokens'),
      ...cell('P99 TBT', tbtS, (run) => run.tbtP99Ms / 1_000, 's'),
    ]
  })
}

/** What other t_m give. */
function overheadRemark(runs: readonly CostRun[], paper: number, value: (run: CostRun) => number | null): string {
  const ofAnswer = known(runs.filter(({ migrationCounts }) => migrationCounts === 'answer').map(value))
  if (ofAnswer.length > 0)
    return `with t_m of prompt and answer, in place of the prompt alone, it is ${written(meanOf(ofAnswer))}`
  const tried = runs.flatMap((run) => {
    const found = value(run)
    return found === null || run.patience === undefined ? [] : [{ patience: run.patience, found }]
  })
  const [nearest] = tried.toSorted((a, b) => Math.abs(Math.log(a.found / paper)) - Math.abs(Math.log(b.found / paper)))
  if (!nearest) return 'no answer moved in the runs with other t_m'
  const share = (patience: number) => `${(100 * patience).toFixed(1)} %`
  return (
    `t_m here is enough for ${share(paperPatience)} of this stand-in’s starts, as for all servers; ` +
    `enough for ${share(nearest.patience)} it gives ${written(nearest.found)}`
  )
}

function meanCells(runs: readonly TtftRun[]): PaperCell[] {
  const comparisons = comparisonsOf(runs, 'alone')
  const byConfiguration = rows.flatMap(({ server, constrained }) =>
    deviceProfiles.map(({ name }) => {
      const own = comparisons.filter((each) => isOf(server, constrained)(each) && each.device === name)
      return 100 * meanOf(own.map(({ meanCut }) => meanCut))
    }),
  )
  const gpt = comparisons.filter(({ server }) => server === 'GPT').map(({ meanCut }) => 100 * meanCut)
  const lowest = Math.min(...comparisons.map(({ budget }) => budget))
  const llama = comparisonsOf(runs, 'beside').filter((each) => isOf('LLaMA', 'device')(each) && each.budget === lowest)
  const single = (cuts: readonly Comparison[]) => cuts.map(({ meanCut }) => 100 * meanCut)
  const beside = single(comparisonsOf(runs, 'beside'))
  const range = (cuts: readonly number[]) => `${written(Math.min(...cuts))} to ${written(Math.max(...cuts))} %`
  const cell = (row: string, metric: string, paper: number | null, ours: number, unit: string) =>
    explained(
      { place: 'Fig. 6', row, metric, paper, ours, unit },
      paper === null
        ? undefined
        : 'the paper does not say which budgets and baseline this is of: here of means over budgets, against requests sent by chance; of single ' +
            `budgets the cuts are ${range(single(comparisons))}, and ${range(beside)} against a limited side that starts by chance beside the other one`,
    )
  const cut = 'cut of mean TTFT'
  return [
    cell('GPT, both sides, all devices and budgets (paper: 20 to 30 %)', cut, 25, meanOf(gpt), '%'),
    cell('smallest of all servers, sides and devices', cut, 6, Math.min(...byConfiguration), '%'),
    cell('largest of all servers, sides and devices', cut, 78, Math.max(...byConfiguration), '%'),
    cell(
      `LLaMA, device limited to ${lowest}`,
      'mean TTFT over that of chance beside',
      null,
      meanOf(llama.map(({ meanCut }) => 1 - meanCut)),
      '',
    ),
  ]
}

/** LLaMA with the device limited to the lowest budget: mean and P99 over those of chance beside, with α and with another α. */
export function tailShareFigures(document: BenchDocument) {
  const runs = ttftRuns(document).filter(isOf('LLaMA', 'device'))
  const others = tailRuns(document)
  const lowest = Math.min(...others.map(({ budget }) => budget))
  const of = (from: readonly TtftRun[], method: Method) => from.filter((run) => run.method === method && run.budget === lowest)
  const over = (from: readonly TtftRun[], figure: 'meanMs' | 'p99Ms') =>
    meanOf(of(from, 'plan').map((run) => run[figure] / of(runs, 'beside').find(({ device }) => device === run.device)![figure]))
  return {
    otherTailShare,
    mean: over(runs, 'meanMs'),
    p99: over(runs, 'p99Ms'),
    otherMean: over(others, 'meanMs'),
    otherP99: over(others, 'p99Ms'),
  }
}

/** Migration beside none, by setting. */
export function costCutsOf(runs: readonly CostRun[], migrates: 'paper' | 'brim', constrained: ReportedSide): number[] {
  const key = ({ server, device, budget }: Setting) => [server, device, budget].join('\n')
  const own = runs.filter((run) => run.constrained === constrained)
  const alone = new Map(own.filter((run) => run.migrates === 'no').map((run) => [key(run), run.dollars]))
  return own.filter((run) => run.migrates === migrates).map((run) => 1 - run.dollars / alone.get(key(run))!)
}

function costCells(runs: readonly CostRun[]): PaperCell[] {
  return constrainedSides.map((constrained) => ({
    place: 'Fig. 7',
    row: `${constrained} limited, the largest of all servers, devices and budgets`,
    metric: 'cut of cost by migration',
    paper: largestCostCut[constrained],
    ours: 100 * Math.max(...costCutsOf(runs, 'paper', constrained)),
    improved: 100 * Math.max(...costCutsOf(runs, 'brim', constrained)),
    unit: '%',
  }))
}

function planCells(runs: readonly PlanRun[]): PaperCell[] {
  return runs.map(({ times: { constrained, samples, sortedMs, planUs } }) =>
    explained(
      {
        place: 'Fig. 9',
        row: `DiSCo-${constrained === 'server' ? 'S' : 'D'}, ${samples} samples`,
        metric: 'time of a plan, measured',
        paper: paperPlanMs[constrained][samples]!,
        ours: median(sortedMs),
        improved: median(planUs) / 1_000,
        unit: 'ms',
      },
      'measured here, in JavaScript on a shared core; in the paper on an Apple M1',
    ),
  )
}
