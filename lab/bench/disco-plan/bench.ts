import { type Random, seededRandom } from '../../../core/base/random.ts'
import { type DispatchState, dispatchOf } from '../../../core/policy/disco/dispatch.ts'
import { createTokenCounts, createTtft } from '../../../core/policy/disco/estimates.ts'
import type { Side } from '../../../core/policy/disco/state.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type PlanTimes, planReport } from './report.ts'
import { sortedDistribution, sortedLengths } from './sorted-samples.ts'

const sizes = [1_000, 10_000, 100_000] as const
const constrainedSides: readonly Side[] = ['server', 'device']
/** Requests that are timed together: one takes no longer than the clock's steps. */
const perBatch = 200
/** Batches before the measured ones: they compile. */
const warmUp = 20

export const planBench: Bench = {
  name: 'disco-plan',
  options: {},
  examples: [],
  goals: { planMs100k: { max: 1 }, updateUs: { max: 5 } },
  async run({ quick, progress }) {
    const batches = quick ? 20 : 200
    const runs = sizes.flatMap((samples) => {
      progress(`${samples} samples`)
      return constrainedSides.map((constrained) => measurePlans(constrained, samples, batches))
    })
    return { conditions: { batches, perBatch }, summary: summarise(runs), runs }
  },
  report: planReport,
}

/** `brim bench disco-plan` */
export const command = benchCommand(planBench)

/** The slower of the two policies. */
export function summarise(runs: readonly PlanTimes[]) {
  const slowest = (samples: number, of: (run: PlanTimes) => readonly number[]) =>
    Math.max(...runs.filter((run) => run.samples === samples).map((run) => median(of(run))))
  const planMs = (samples: number) => slowest(samples, ({ planUs }) => planUs) / 1_000
  return {
    planMs1k: planMs(1_000),
    planMs10k: planMs(10_000),
    planMs100k: planMs(100_000),
    updateUs: slowest(100_000, ({ updateUs }) => updateUs),
    allLengthsMs100k: slowest(100_000, ({ allLengthsMs }) => allLengthsMs),
    sortedMs100k: slowest(100_000, ({ sortedMs }) => sortedMs),
  }
}

/** Updates and plans of a device that has seen so many answers. */
export function measurePlans(constrained: Side, samples: number, batches: number): PlanTimes {
  const random = seededRandom(samples)
  const ttfts = Float64Array.from({ length: samples }, () => logNormal(random, 600, 0.7))
  const lengths = Float64Array.from({ length: samples }, () => Math.ceil(logNormal(random, 60, 0.9)))
  const [serverTtftMs, promptLengths] = [createTtft(), createTokenCounts()]
  const learn = (i: number) => {
    serverTtftMs.record(ttfts[i % samples] ?? 0)
    promptLengths.record(lengths[i % samples] ?? 0)
  }
  for (let i = 0; i < samples; i += 1) learn(i)
  const stateOf = (i: number): DispatchState => ({
    constrained,
    share: 0.1 * (1 + (i % 9)),
    serverTtftMs: serverTtftMs.predictive,
    promptLengths,
  })
  const planAll = (state: DispatchState, all: readonly number[]) => {
    for (const length of all) dispatchOf(length, state)
  }
  const { all } = sortedLengths(lengths)
  const usOfOne = (ms: number) => (1_000 * ms) / perBatch
  const perRequest = (work: (i: number) => void) =>
    timesMs(batches, (batch) => {
      for (let i = batch * perBatch; i < (batch + 1) * perBatch; i += 1) work(i)
    }).map(usOfOne)
  return {
    samples,
    constrained,
    updateUs: perRequest(learn),
    planUs: perRequest((i) => dispatchOf(lengths[i % samples] ?? 0, stateOf(i))),
    allLengthsMs: timesMs(batches, (batch) => planAll(stateOf(batch), all)),
    sortedMs: timesMs(batches / 10, (batch) => {
      const sorted = sortedLengths(lengths)
      planAll({ ...stateOf(batch), serverTtftMs: sortedDistribution(ttfts), promptLengths: sorted }, sorted.all)
    }),
  }
}

/** @param work gets the number of its run */
function timesMs(count: number, work: (run: number) => void): number[] {
  return Array.from({ length: warmUp + count }, (_, run) => {
    const begunMs = performance.now()
    work(run)
    return performance.now() - begunMs
  }).slice(warmUp)
}

function logNormal(random: Random, middle: number, sigma: number): number {
  const gauss = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  return middle * Math.exp(sigma * gauss)
}
