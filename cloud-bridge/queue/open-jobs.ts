import { join } from 'node:path'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { systemClocks } from '../../core/kit/base/steady-wall-clock.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { isStorageFull, requireSpace, requireWritable } from '../../core/kit/store/storage-full.ts'
import { StorageWatch } from '../../core/kit/store/storage-watch.ts'
import type { BridgeConfig } from '../config.ts'
import { openJobClock } from './job-clock.ts'
import { createJobQueue, type JobQueue, type JobQueueOptions } from './job-queue.ts'
import { createJobStore, type JobStore } from './job-store.ts'
import { jobTables } from './job-tables.ts'

const dayMs = 86_400_000
/** Interval of the checks whether the disk is full. */
const checkStorageMs = 2_000

type OpenJobsLimits = Pick<BridgeConfig['limits'], 'deviceJobBytesPerDay' | 'jobAttemptBytes'>

export interface OpenJobs {
  readonly store: JobStore
  readonly queue: JobQueue
  /** Whether its disk stores jobs. */
  readonly storage: StorageWatch
  /** The time of day that the jobs' deadlines are compared with: UTC ms. */
  wallMs(): number
  close(): Promise<void>
}

/**
 * Opens the durable queue. It has a database of its own, so that its commits do not wait for others, and because the
 * results of a fleet take more space than its registry.
 * @throws BrimError STORE_FAILED
 */
export function openJobs(
  { stateDir, jobs, limits }: Pick<BridgeConfig, 'stateDir' | 'jobs'> & { limits: OpenJobsLimits },
  options: Omit<JobQueueOptions, 'jobs' | 'retention' | 'wallMs'>,
  clocks = systemClocks(),
): OpenJobs {
  const database = openDatabase(join(stateDir, 'jobs.sqlite'), jobTables)
  const { jobAttemptBytes: attemptBytes, deviceJobBytesPerDay: deviceBytesPerDay } = limits
  const unguarded = createJobStore(database, seededRandom(nextSeed()), { attemptBytes, deviceBytesPerDay })
  const { keepDays, keepDeadDays, keepCount: maxJobs, keepBytes: maxBytes } = jobs
  const retention = { doneMs: keepDays * dayMs, deadMs: keepDeadDays * dayMs, maxJobs, maxBytes }
  const storage = new StorageWatch({
    requireSpace: () => requireSpace(database),
    requireWritable: () => requireWritable(database),
    onChange: () => {},
    code: 'STORAGE_FULL',
    what: 'the bridge cannot store jobs',
    logger: options.logger,
  })
  storage.check()
  const stopChecking = repeatEvery(options.clock, checkStorageMs, () => storage.check())
  /** What is left of a full disk is for jobs that have begun. */
  function whileStored<T>(write: () => T): T {
    if (storage.isFailing) throw storage.onFailure(new Error(storage.failure))
    try {
      return write()
    } catch (error) {
      throw isStorageFull(error) ? storage.onFailure(error) : error
    }
  }
  const store: JobStore = {
    ...unguarded,
    submit: (jobs, nowMs) => whileStored(() => unguarded.submit(jobs, nowMs)),
    retry: (id, nowMs) => whileStored(() => unguarded.retry(id, nowMs)),
  }
  const time = openJobClock({ store: database, clocks, clock: options.clock, logger: options.logger })
  const wallMs = time.nowMs
  const queue = createJobQueue({ ...options, jobs: store, retention, wallMs })
  return {
    store,
    queue,
    storage,
    wallMs,
    async close() {
      await queue.close()
      await stopChecking()
      await time.close()
      database.close()
    },
  }
}
