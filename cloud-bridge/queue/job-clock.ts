import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { type ClockReading, SteadyWallClock } from '../../core/kit/base/steady-wall-clock.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { isStorageFull } from '../../core/kit/store/storage-full.ts'
import { readSteadyTime, writeSteadyTime } from './steady-time.ts'

/** Interval between two writes of the time: what another start of the machine compares its clock with. */
const storeEveryMs = 60_000

export interface JobClockOptions {
  /** Has `jobTables`. */
  readonly store: Store
  readonly clocks: () => ClockReading
  readonly clock: Clock
  readonly logger: Logger
}

/** Moves the deadlines of open jobs that were submitted since then. @returns number of jobs */
export const moveDeadlines = (store: Store, gapMs: number, sinceMs = Number.MIN_SAFE_INTEGER): number =>
  store
    .prepare<{ gapMs: number; sinceMs: number }>(
      `UPDATE jobs SET submitted_ms = submitted_ms + @gapMs, ends_by_ms = ends_by_ms + @gapMs, due_ms = due_ms + @gapMs,
         not_before_ms = not_before_ms + @gapMs, run_by_ms = run_by_ms + @gapMs, lost_at_ms = lost_at_ms + @gapMs
       WHERE due_ms IS NOT NULL AND submitted_ms >= @sinceMs`,
    )
    .run({ gapMs: Math.round(gapMs), sinceMs: Math.max(sinceMs, Number.MIN_SAFE_INTEGER) }).changes

/** The time of day of the jobs' deadlines, stored with them. Once a jump of the clock is believed, they move with it. */
export function openJobClock({ store, clocks, clock, logger }: JobClockOptions) {
  const steady = new SteadyWallClock({
    read: clocks,
    stored: readSteadyTime(store),
    onDoubt(gapMs) {
      if (gapMs === 0) logger.warn('clock of this machine is back: deadlines of jobs were not changed')
      else
        logger.warn({ gapS: gapMs / 1_000 }, 'clock of this machine has jumped: deadlines of jobs do not follow until it stays')
    },
    onBelieved({ gapMs, sinceMs }, time) {
      tryOrLog(logger, 'deadlines of jobs not moved', () => {
        const moved = store.transaction(() => {
          writeSteadyTime(store, time)
          return moveDeadlines(store, gapMs, sinceMs)
        })
        const jobs = moved.immediate()
        logger.warn(
          { gapS: Math.round(gapMs) / 1_000, jobs },
          'clock of this machine has changed: deadlines of jobs have moved with it',
        )
      })
    },
  })
  const write = () =>
    tryOrLog(logger, 'time of the jobs not stored', () => {
      try {
        writeSteadyTime(store, steady.now())
      } catch (error) {
        // The queue reports it.
        if (!isStorageFull(error)) throw error
      }
    })
  write()
  const stop = repeatEvery(clock, storeEveryMs, write)
  return {
    nowMs: steady.nowMs,
    async close() {
      await stop()
      write()
    },
  }
}
