import { seededRandom } from '../../../core/kit/base/random.ts'
import { bootstrapInterval } from '../../../core/policy/estimate/bootstrap.ts'
import type { Table } from '../../frame/bench.ts'
import { mean, over } from '../../frame/statistics.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import { tbtOf, validRuns } from './figures.ts'
import type { HatRun, Measured, Sample } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** The same request of the same seed, under both strategies. */
type Pair = readonly [own: Sample, other: Sample]

/** Requests whose answer does not loop, in the order in which they were sent: both strategies give the same tokens. */
function pairsOf(
  runs: readonly HatRun[],
  wanted: { readonly measured: Measured; readonly workload: WorkloadName },
  names: readonly [StrategyName, StrategyName],
): Pair[] {
  const [own, other] = names.map((strategy) => validRuns(runs, { ...wanted, strategy }))
  return own!.flatMap(({ seed, samples }) => {
    const beside = other!.find((run) => run.seed === seed)?.samples ?? []
    return samples.flatMap((sample, at): Pair[] => {
      const same = beside[at]
      return same && sample.looping === false && same.looping === false ? [[sample, same]] : []
    })
  })
}

const figures = {
  TTFT: (samples: readonly Sample[]) => mean(samples.map(({ ttftMs }) => ttftMs)),
  TBT: tbtOf,
}

const compared = [
  ['loaded', 'short', 'TBT', 'u-shape'],
  ['loaded', 'short', 'TBT', 'u-sarathi'],
  ['loaded', 'short', 'TBT', 'u-medusa'],
  ['loaded', 'long', 'TBT', 'u-shape'],
  ['alone', 'short', 'TBT', 'u-shape'],
  ['alone', 'short', 'TBT', 'hat-paper'],
  ['loaded', 'short', 'TTFT', 'u-shape'],
  ['loaded', 'long', 'TTFT', 'u-shape'],
  ['alone', 'long', 'TTFT', 'u-shape'],
  ['busy', 'short', 'TBT', 'u-shape'],
  ['busy', 'long', 'TTFT', 'u-shape'],
  ['busy', 'long', 'TTFT', 'hat-fixed'],
] as const satisfies readonly (readonly [Measured, WorkloadName, keyof typeof figures, StrategyName])[]

/** HAT over the others, with 95 % intervals of a bootstrap over requests: all seeds together, so that a ratio can differ from the median over seeds. */
export function headlineTable(runs: readonly HatRun[]): Table {
  const rows = compared.flatMap(([measured, workload, figure, other]) => {
    const pairs = pairsOf(runs, { measured, workload }, ['hat', other])
    const ratioOf = (some: readonly Pair[]) =>
      over(figures[figure](some.map(([own]) => own)), figures[figure](some.map(([, beside]) => beside)))
    const interval = bootstrapInterval(pairs, ratioOf, seededRandom(1))
    return pairs.length === 0 ? [] : [{ measured, workload, figure, other, ratio: ratioOf(pairs), interval, n: pairs.length }]
  })
  return tableOf('Answers without loops: HAT over the others, with 95 % intervals over requests', rows, [
    ['measured', ({ measured }) => measured],
    ['prompts', ({ workload }) => workload],
    ['figure', ({ figure }) => figure],
    ['over', ({ other }) => other],
    ['ratio', ({ ratio }) => toDigits(ratio, 3)],
    ['from', ({ interval }) => toDigits(interval?.[0], 3)],
    ['to', ({ interval }) => toDigits(interval?.[1], 3)],
    ['n', ({ n }) => String(n)],
  ])
}
