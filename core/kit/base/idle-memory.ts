import type { Clock } from './clock.ts'
import { repeatEvery } from './repeat.ts'

/** A process is at rest after this time without work. */
const restMs = 10_000

export interface ActivityCount {
  /** Parts of it that are under way. */
  readonly active: number
  /** Grows with what is done, in any unit. */
  readonly done: number
}

/** Releases memory once after the start, and once after work, when the process is at rest. @returns stops it */
export function releaseMemoryAtRest(work: () => ActivityCount, release: () => void, clock: Clock): () => Promise<void> {
  let seen = work().done
  let isReleased = false
  return repeatEvery(clock, restMs, () => {
    const { active, done } = work()
    const isAtRest = active === 0 && done === seen
    if (isAtRest && !isReleased) release()
    isReleased = isAtRest
    seen = done
  })
}
