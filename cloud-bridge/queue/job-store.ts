import type { Random } from '../../core/kit/base/random.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import type { StorageLimits } from '../../core/policy/jobs/stored-bytes.ts'
import { createAssigning } from './assign-attempts.ts'
import { createDeadlines } from './deadlines.ts'
import { DeviceUsage } from './device-usage.ts'
import { type JobChange, JobDatabase } from './job-database.ts'
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
export function createJobStore(store: Store, random: Random, limits: StorageLimits) {
  const db = new JobDatabase(store, random, limits)
  const usage = new DeviceUsage(store, limits.deviceBytesPerDay)
  return {
    ...createSubmissions(db),
    ...createAssigning(db),
    ...createReports(db, usage),
    ...createDeadlines(db),
    ...createRetention(db),
    ...createJobReader(db),
    /** @param onChanged called with each change of a job, in order, once it is stored. It must not change jobs */
    follow: (onChanged: (change: JobChange) => void) => db.follow(onChanged),
    /** Whether the device has stored as much as it may on this day of UTC. @param nowMs wall clock */
    isExhausted: (device: string, nowMs: number) => usage.isExhausted(device, nowMs),
    /** The devices that have. @param nowMs wall clock */
    exhausted: (nowMs: number) => usage.exhausted(nowMs),
    /** Call it often. @returns whether a new day has begun after one on which a device was exhausted */
    renewQuotas: (nowMs: number) => usage.renew(nowMs),
  }
}
