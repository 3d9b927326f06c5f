import { bytesToDelete, type RetentionLimits } from '../../core/policy/jobs/retention.ts'
import type { JobDatabase } from './job-database.ts'
import { isDead, isDone } from './job-tables.ts'

/** What is to be deleted. */
export interface Surplus {
  /** Wall clock times: jobs that finished earlier are deleted. */
  readonly doneMs: number
  readonly deadMs: number
  /** Bytes of each device, which `prune` counts down: its oldest jobs, and its lines in jobs that another device finished. */
  readonly bytes: Map<string, number>
}

/** Jobs deleted in one transaction, which other transactions wait for. */
const maxPruned = 50

/** A finished job that holds bytes of a device. */
interface Share {
  readonly job: number
  readonly bytes: number
  /** Whether the device ended the job. */
  readonly owns: number
}

export interface JobRetention {
  /** What `prune` must delete now. The query reads one index entry for each finished job. */
  surplus(limits: RetentionLimits, nowMs: number): Surplus
  /** Deletes a limited number of jobs, the oldest first. @returns their number; 0: nothing is left to delete */
  prune(surplus: Surplus): number
}

export function createRetention(db: JobDatabase): JobRetention {
  const finished = (condition: string) => ({
    count: db.store.prepare<[], number>(`SELECT count(*) FROM jobs WHERE ${condition}`).pluck(),
    nth: db.store
      .prepare<[number], number>(`SELECT finished_ms FROM jobs WHERE ${condition} ORDER BY finished_ms LIMIT 1 OFFSET ?`)
      .pluck(),
    oldest: db.store
      .prepare<[number, number], number>(
        `SELECT n FROM jobs WHERE ${condition} AND finished_ms <= ? AND n < (SELECT max(n) FROM jobs)
         ORDER BY finished_ms LIMIT ?`,
      )
      .pluck(),
  })
  const done = finished(isDone)
  const dead = finished(isDead)
  const shares = db.store.prepare<[], { device: string; bytes: number }>(
    'SELECT device, sum(bytes) AS bytes FROM job_shares GROUP BY device',
  )
  const oldestShares = db.store.prepare<[string, number], Share>(
    `SELECT job, bytes, owns FROM job_shares JOIN jobs ON n = job
     WHERE device = ? AND finished_ms IS NOT NULL AND job < (SELECT max(n) FROM jobs) ORDER BY job LIMIT ?`,
  )
  const deleteJob = db.store.prepare<[number]>('DELETE FROM jobs WHERE n = ?')
  const deleteEvents = db.store.prepare<[number]>('DELETE FROM job_events WHERE job = ?')
  const deleteShares = db.store.prepare<[number]>('DELETE FROM job_shares WHERE job = ?')
  const deleteLines = db.store.prepare<[number, string]>('DELETE FROM job_events WHERE job = ? AND device = ?')
  const deleteShare = db.store.prepare<[string, number]>('DELETE FROM job_shares WHERE device = ? AND job = ?')
  const pragma = (name: string) => Number(db.store.pragma(name, { simple: true }))

  function deleteAll(n: number): void {
    deleteEvents.run(n)
    deleteShares.run(n)
    deleteJob.run(n)
  }

  /** @returns number of deleted jobs */
  function pruneExpired({ doneMs, deadMs }: Surplus): number {
    const expired = [...done.oldest.all(doneMs, maxPruned), ...dead.oldest.all(deadMs, maxPruned)].slice(0, maxPruned)
    if (expired.length > 0)
      db.transaction(() => {
        for (const n of expired) deleteAll(n)
      })
    return expired.length
  }

  /** @returns number of jobs that became smaller or were deleted */
  function pruneShares(surplus: Map<string, number>): number {
    for (const [device, bytes] of surplus) {
      const oldest = oldestShares.all(device, maxPruned)
      let left = bytes
      const given = oldest.filter((share) => {
        const isSurplus = left > 0
        if (isSurplus) left -= share.bytes
        return isSurplus
      })
      if (left > 0 && oldest.length === maxPruned) surplus.set(device, left)
      else surplus.delete(device)
      if (given.length > 0) {
        db.transaction(() => {
          for (const share of given) give(device, share)
        })
        return given.length
      }
    }
    return 0
  }

  function give(device: string, { job, owns }: Share): void {
    if (owns === 1) deleteAll(job)
    else {
      deleteLines.run(job, device)
      deleteShare.run(device, job)
    }
  }

  return {
    surplus(limits, nowMs) {
      const cutoff = ({ count, nth }: typeof done, maxAgeMs: number) => {
        const surplusJobs = (count.get() ?? 0) - limits.maxJobs
        const lastSurplusMs = surplusJobs > 0 ? nth.get(surplusJobs - 1) : undefined
        return Math.max(nowMs - maxAgeMs, lastSurplusMs ?? Number.NEGATIVE_INFINITY)
      }
      const usedBytes = (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
      const byDevice =
        usedBytes > limits.maxBytes
          ? new Map(shares.all().map(({ device, bytes }) => [device, bytes]))
          : new Map<string, number>()
      const bytes = bytesToDelete(byDevice, usedBytes, limits.maxBytes)
      return { doneMs: cutoff(done, limits.doneMs), deadMs: cutoff(dead, limits.deadMs), bytes }
    },
    prune: (surplus) => pruneExpired(surplus) || pruneShares(surplus.bytes),
  }
}
