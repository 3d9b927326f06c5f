import { bracketOf, reachable, type ServiceLevel, type TriedGpus } from '../needed-gpus.ts'
import type { FleetRun } from './fleet-run.ts'
import { medianOf, runsOf } from './medians.ts'
import { methods } from './methods.ts'

/** P95 of two seconds; the mean is bounded, too, where devices alone make the tail. */
export const goal: ServiceLevel = { ttftMeanMs: 1_000, ttftP95Ms: 2_000, stalls: 0.01 }

/** GPUs that a method needs. */
export interface Need {
  readonly method: string
  /** The goal, or where no number of GPUs reaches that, nearly what the most of them reach. */
  readonly level: ServiceLevel
  /** Of those tried, that are not enough, and the least that are. */
  readonly low: number
  readonly high: number
}

/** Of each method with a cloud, by all its runs. */
export function needsOf(runs: readonly FleetRun[]): Need[] {
  return methods
    .filter(({ needsCloud }) => needsCloud)
    .map(({ name }) => {
      const counts = [...new Set(runs.flatMap(({ method, gpus }) => (method === name ? [gpus] : [])))]
      const tried = counts.map((gpus) => reached(runs, name, gpus))
      const most = tried.reduce((a, b) => (b.gpus > a.gpus ? b : a))
      const level = reachable(goal, most)
      return { method: name, level, ...bracketOf(tried, level) }
    })
}

function reached(runs: readonly FleetRun[], method: string, gpus: number): TriedGpus {
  const own = runsOf(runs, method, gpus)
  return {
    gpus,
    ttftMeanMs: medianOf(own, ({ ttftMeanMs }) => ttftMeanMs),
    ttftP95Ms: medianOf(own, ({ ttftP95Ms }) => ttftP95Ms),
    stalls: medianOf(own, ({ stalls }) => stalls),
    unserved: medianOf(own, ({ unserved }) => unserved),
  }
}
