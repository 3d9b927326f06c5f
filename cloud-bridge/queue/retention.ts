import { type RetentionLimits, surplusJobs } from '../../core/policy/jobs/retention.ts'
import type { JobDatabase } from './job-database.ts'
import { isDead, isDone } from './job-tables.ts'

/** Wall clock times: jobs that finished earlier are deleted. */
export interface Cutoffs {
  readonly doneMs: number
  readonly deadMs: number
}

/** Jobs deleted in one transaction, which other transactions wait for. */
const maxPruned = 50

export function createRetention(db: JobDatabase) {
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
  const deleteJob = db.store.prepare<[number]>('DELETE FROM jobs WHERE n = ?')
  const deleteEvents = db.store.prepare<[number]>('DELETE FROM job_events WHERE job = ?')
  const pragma = (name: string) => Number(db.store.pragma(name, { simple: true }))
  return {
    /** What `prune` must delete now. The query reads one index entry for each finished job. */
    cutoffs(limits: RetentionLimits, nowMs: number): Cutoffs {
      const usedBytes = (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
      const cutoff = ({ count, nth }: typeof done, maxAgeMs: number) => {
        const surplus = surplusJobs(count.get() ?? 0, usedBytes, limits)
        const lastSurplusMs = surplus > 0 ? nth.get(surplus - 1) : undefined
        return Math.max(nowMs - maxAgeMs, lastSurplusMs ?? Number.NEGATIVE_INFINITY)
      }
      return { doneMs: cutoff(done, limits.doneMs), deadMs: cutoff(dead, limits.deadMs) }
    },
    /** Deletes a limited number of expired jobs, the oldest first. @returns their number; 0: none are left */
    prune({ doneMs, deadMs }: Cutoffs): number {
      const expired = [...done.oldest.all(doneMs, maxPruned), ...dead.oldest.all(deadMs, maxPruned)].slice(0, maxPruned)
      if (expired.length === 0) return 0
      db.transaction(() => {
        for (const n of expired) {
          deleteEvents.run(n)
          deleteJob.run(n)
        }
      })
      return expired.length
    },
  }
}
