import type { ModeResult } from './results/mode-result.ts'

/** What the answers of a fleet keep. */
export interface ServiceLevel {
  /** Mean and P95 of the time to the first token. */
  readonly ttftMeanMs: number
  readonly ttftP95Ms: number
  /** Time that readers wait after the first token, over reading time. */
  readonly stalls: number
}

/** What a fleet has reached with some GPUs. */
export interface TriedGpus extends ServiceLevel {
  readonly gpus: number
  readonly unserved: number
}

/** Waiting over reading time. */
export const stallsOf = ({ stalledMs, answered, readingS }: ModeResult): number =>
  readingS === 0 ? 0 : (stalledMs.mean * answered) / 1_000 / readingS

/** Worse than with the most GPUs by so much. */
const slack = 1.1

/** What GPUs can do: a device's own times, or a link's, are no shorter with more of them. @param most reached with the most GPUs */
export const reachable = (goal: ServiceLevel, most: ServiceLevel): ServiceLevel => ({
  ttftMeanMs: Math.max(goal.ttftMeanMs, slack * most.ttftMeanMs),
  ttftP95Ms: Math.max(goal.ttftP95Ms, slack * most.ttftP95Ms),
  stalls: Math.max(goal.stalls, slack * most.stalls),
})

export const meets = ({ ttftMeanMs, ttftP95Ms, stalls, unserved }: TriedGpus, level: ServiceLevel): boolean =>
  unserved === 0 && ttftMeanMs <= level.ttftMeanMs && ttftP95Ms <= level.ttftP95Ms && stalls <= level.stalls

/** Where the least number of GPUs lies that keeps a level. */
export interface Bracket {
  /** Not enough, or 0. */
  readonly low: number
  /** Enough, and so is all that was tried above. */
  readonly high: number
}

/** @param tried in any order; the most of them are taken to be enough */
export function bracketOf(tried: readonly TriedGpus[], level: ServiceLevel): Bracket {
  const falling = tried.toSorted((a, b) => b.gpus - a.gpus)
  const short = falling.findIndex((each, at) => at > 0 && !meets(each, level))
  const least = falling[short < 0 ? falling.length - 1 : short - 1]!
  return { low: falling[short]?.gpus ?? 0, high: least.gpus }
}

/** The next number to try, by bisection. @returns undefined: the least is known up to `exactness` - 1 more */
export const nextToTry = ({ low, high }: Bracket, exactness: number): number | undefined =>
  high - low > exactness ? Math.floor((low + high) / 2) : undefined
