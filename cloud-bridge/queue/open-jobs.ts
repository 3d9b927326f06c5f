import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { seededRandom } from '../../core/base/random.ts'
import { systemClocks } from '../../core/base/steady-wall-clock.ts'
import { openDatabase } from '../../core/store/open-database.ts'
import type { BridgeConfig } from '../config.ts'
import { openJobClock } from './job-clock.ts'
import { createJobQueue, type JobQueueOptions } from './job-queue.ts'
import { createJobStore } from './job-store.ts'
import { jobTables } from './job-tables.ts'

const dayMs = 86_400_000

type OpenJobsLimits = Pick<BridgeConfig['limits'], 'deviceJobBytesPerDay' | 'jobAttemptBytes'>

/**
 * Opens the durable queue. It has a database of its own, so that its commits do not wait for others, and because the
 * results of a fleet take more space than its registry.
 * @throws BrimError STORE_FAILED
 */
export function openJobs(
  { stateDir, jobs, limits }: Pick<BridgeConfig, 'stateDir' | 'jobs'> & { limits: OpenJobsLimits },
  options: Omit<JobQueueOptions, 'jobs' | 'retention' | 'wallMs'>,
  clocks = systemClocks(),
) {
  const database = openDatabase(join(stateDir, 'jobs.sqlite'), jobTables)
  const { jobAttemptBytes: attemptBytes, deviceJobBytesPerDay: deviceBytesPerDay } = limits
  const store = createJobStore(database, seededRandom(randomInt(2 ** 32)), { attemptBytes, deviceBytesPerDay })
  const { keepDays, keepDeadDays, keepCount: maxJobs, keepBytes: maxBytes } = jobs
  const retention = { doneMs: keepDays * dayMs, deadMs: keepDeadDays * dayMs, maxJobs, maxBytes }
  const time = openJobClock({ store: database, clocks, clock: options.clock, logger: options.logger })
  const wallMs = time.nowMs
  const queue = createJobQueue({ ...options, jobs: store, retention, wallMs })
  return {
    store,
    queue,
    /** The time of day that the jobs' deadlines are compared with: UTC ms. */
    wallMs,
    async close() {
      await queue.close()
      await time.close()
      database.close()
    },
  }
}
