import type { Random } from '../../core/base/random.ts'
import type { Store } from '../../core/store/open-database.ts'
import { createDeadlines, type Deadlines } from './deadlines.ts'
import { createDispatching, type Dispatching } from './dispatching.ts'
import { JobDatabase } from './job-database.ts'
import { createJobReader, type JobReader } from './job-reader.ts'
import { createReports, type Reports } from './reports.ts'
import { createRetention, type Retention } from './retention.ts'
import { createSubmissions, type Submissions } from './submissions.ts'

/**
 * The bridge's jobs, on disk. Every call that changes jobs is one transaction. The caller sends the returned effects to
 * devices afterwards; sending one twice is harmless.
 */
export interface JobStore extends Submissions, Dispatching, Reports, Deadlines, Retention, JobReader {}

/**
 * @param store must have the tables of `jobTables`
 * @param random jitter of retry delays
 */
export function createJobStore(store: Store, random: Random): JobStore {
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
