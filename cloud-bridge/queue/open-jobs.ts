import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { seededRandom } from '../../core/base/random.ts'
import { openDatabase } from '../../core/store/open-database.ts'
import { createJobsHttp, type JobsHttp } from '../api/jobs.ts'
import type { BridgeConfig } from '../config.ts'
import { createJobQueue, type JobQueue, type JobQueueOptions } from './job-queue.ts'
import { JobStore } from './job-store.ts'
import { jobTables } from './job-tables.ts'

export interface Jobs {
  readonly store: JobStore
  readonly queue: JobQueue
  readonly http: JobsHttp
  close(): Promise<void>
}

/**
 * The durable queue on a database of its own: its commits wait for nobody else's, and a fleet's results are of another size
 * than its registry.
 * @throws BrimError STORE_FAILED
 */
export function openJobs(
  { stateDir, jobs: kept }: Pick<BridgeConfig, 'stateDir' | 'jobs'>,
  options: Omit<JobQueueOptions, 'jobs' | 'retention'>,
): Jobs {
  const database = openDatabase(join(stateDir, 'jobs.sqlite'), jobTables)
  const store = new JobStore(database, seededRandom(randomInt(2 ** 32)))
  const { keepS, keepDeadS, keepCount: maxJobs, keepBytes: maxBytes } = kept
  const retention = { doneMs: keepS * 1_000, deadMs: keepDeadS * 1_000, maxJobs, maxBytes }
  const queue = createJobQueue({ ...options, jobs: store, retention })
  return {
    store,
    queue,
    http: createJobsHttp(queue, store),
    async close() {
      await queue.close()
      database.close()
    },
  }
}
