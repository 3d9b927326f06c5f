import type { Clock } from '../core/base/clock.ts'
import { repeatEvery } from '../core/base/repeat.ts'

/** An agent is at rest after this time without answers. */
const restMs = 10_000

/** Counters of AnswerMeter. */
export interface AnswerCounts {
  readonly active: number
  readonly totals: { readonly busyS: number }
}

/** Releases memory once after the start, and once after answers, when the agent is at rest. @returns stops it */
export function releaseMemoryAtRest(answers: AnswerCounts, release: () => void, clock: Clock): () => Promise<void> {
  let seenBusyS = answers.totals.busyS
  let isReleased = false
  return repeatEvery(clock, restMs, () => {
    const { busyS } = answers.totals
    const isAtRest = answers.active === 0 && busyS === seenBusyS
    if (isAtRest && !isReleased) release()
    isReleased = isAtRest
    seenBusyS = busyS
  })
}
