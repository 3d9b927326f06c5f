import { z } from 'zod'
import { type Random, seededRandom } from '../../../../core/kit/base/random.ts'
import { type DispatchState, dispatchOf } from '../../../../core/policy/disco/dispatch.ts'
import { createTokenCounts, createTtft } from '../../../../core/policy/disco/estimates.ts'
import { type ReportedSide, sideNamed } from '../../../../core/policy/disco/state.ts'
import { publishedAs } from '../paper-file.ts'
import { paper } from './profiles.ts'
import { sortedDistribution, sortedLengths } from './sorted-samples.ts'

/** What a request needs, after so many samples, measured. */
export interface PlanTimes {
  readonly samples: number
  readonly constrained: ReportedSide
  /** Of learning a prompt's length and a time to the first token, µs; one entry for each batch. */
  readonly updateUs: readonly number[]
  /** When the two sides start on one request, µs. */
  readonly planUs: readonly number[]
  /** The same for every prompt length, ms. */
  readonly allLengthsMs: readonly number[]
  /** The same for every prompt length, from samples that are sorted for it, ms: the paper's way. */
  readonly sortedMs: readonly number[]
}

export const sampleCounts = [1_000, 10_000, 100_000] as const

const byKind = publishedAs(paper, 'planMs', z.record(z.enum(['S', 'D']), z.record(z.string(), z.number())))
/** DiSCo Fig. 9 (§5.3), in ms by samples. */
export const paperPlanMs: Readonly<Record<ReportedSide, Readonly<Record<number, number>>>> = {
  server: byKind.S,
  device: byKind.D,
}

/** Requests that are timed together: one takes no longer than the clock's steps. */
export const perBatch = 200
/** Batches before the measured ones, but no more than these: they compile. */
const maxWarmUp = 20

/** Updates and plans of a device that has seen so many answers. */
export function measurePlans(constrained: ReportedSide, samples: number, batches: number): PlanTimes {
  const random = seededRandom(samples)
  const ttfts = Float64Array.from({ length: samples }, () => logNormal(random, 600, 0.7))
  const lengths = Float64Array.from({ length: samples }, () => Math.ceil(logNormal(random, 60, 0.9)))
  const [remoteTtftMs, promptLengths] = [createTtft(), createTokenCounts()]
  const learn = (i: number) => {
    remoteTtftMs.record(ttfts[i % samples] ?? 0)
    promptLengths.record(lengths[i % samples] ?? 0)
  }
  for (let i = 0; i < samples; i += 1) learn(i)
  const stateOf = (i: number): DispatchState => ({
    constrained: sideNamed(constrained),
    share: 0.1 * (1 + (i % 9)),
    remoteTtftMs: remoteTtftMs.predictive,
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
      planAll({ ...stateOf(batch), remoteTtftMs: sortedDistribution(ttfts), promptLengths: sorted }, sorted.all)
    }),
  }
}

/** @param work gets the number of its run */
function timesMs(count: number, work: (run: number) => void): number[] {
  const warmUp = Math.min(count, maxWarmUp)
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
