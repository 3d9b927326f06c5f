import type { Random } from '../../core/base/random.ts'
import type { Store } from '../../core/store/open-database.ts'
import { createDeadlines } from './deadlines.ts'
import { createDispatching } from './dispatching.ts'
import { JobDatabase } from './job-database.ts'
import { createJobReader } from './job-reader.ts'
import { createReports } from './reports.ts'
import { createRetention } from './retention.ts'
import { createSubmissions } from './submissions.ts'

export type JobStore = ReturnType<typeof createJobStore>

/**
 * The bridge's jobs, on disk. Every call that changes jobs is one transaction. The caller sends the returned effects to
 * devices afterwards; sending one twice is harmless.
 * @param store must have the tables of `jobTables`
 * @param random jitter of retry delays
 */
export function createJobStore(store: Store, random: Random) {
  const db = new JobDatabase(store, random)
  return {
    ...createSubmissions(db),
    ...createDispatching(db),
    ...createReports(db),
    ...createDeadlines(db),
    ...createRetention(db),
    ...createJobReader(db),
  }
}
