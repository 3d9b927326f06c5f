import type { Random } from '../../core/kit/base/random.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import type { StorageLimits } from '../../core/policy/jobs/stored-bytes.ts'
import { createAssigning, type JobAssigning } from './assign-attempts.ts'
import { createDeadlines, type JobDeadlines } from './deadlines.ts'
import { DeviceUsage } from './device-usage.ts'
import { type JobChange, JobDatabase } from './job-database.ts'
import type { JobLoads } from './job-loads.ts'
import { createJobReader, type JobReader } from './job-reader.ts'
import { createReports, type JobReports } from './reports.ts'
import { createRetention, type JobRetention } from './retention.ts'
import { createSubmissions, type JobSubmissions } from './submissions.ts'

/**
 * The bridge's jobs, on disk. Every call that changes jobs is one transaction. The caller sends the returned effects to
 * devices afterwards; sending one twice is harmless.
 */
export interface JobStore extends JobSubmissions, JobAssigning, JobReports, JobDeadlines, JobRetention, JobReader {
  readonly loads: Pick<JobLoads, 'of' | 'all' | 'mayHaveOwn' | 'hasWaiting' | 'takeChanges'>
  readonly usage: Pick<DeviceUsage, 'isExhausted' | 'exhausted' | 'renew'>
  /** @param onChanged called with each change of a job, in order, once it is stored. It must not change jobs */
  follow(onChanged: (change: JobChange) => void): void
}

/**
 * @param store must have the tables of `jobTables`
 * @param random jitter of retry delays
 */
export function createJobStore(store: Store, random: Random, limits: StorageLimits): JobStore {
  const db = new JobDatabase(store, random, limits)
  const usage = new DeviceUsage(store, limits.deviceBytesPerDay)
  return {
    ...createSubmissions(db),
    ...createAssigning(db),
    ...createReports(db, usage),
    ...createDeadlines(db),
    ...createRetention(db),
    ...createJobReader(db),
    loads: db.loads,
    usage,
    follow: (onChanged) => db.follow(onChanged),
  }
}
