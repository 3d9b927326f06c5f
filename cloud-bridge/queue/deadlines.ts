import type { AttemptEffect, JobDatabase } from './job-database.ts'
import type { JobRow } from './job-tables.ts'

/** Deadlines of one transaction. */
const maxDue = 256

/** What time and the presence of devices change. Times are the wall clock in ms. */
export interface JobDeadlines {
  /** Applies expired deadlines, up to a limit: call it again. */
  applyDeadlines(nowMs: number): AttemptEffect[]
  /** Null: there is none. */
  nextDeadlineMs(): number | null
  /** A device became present or absent. */
  setPresence(device: string, isPresent: boolean, nowMs: number): AttemptEffect[]
  /** Counts every device as absent. */
  markAllAbsent(nowMs: number): void
}

export function createDeadlines(db: JobDatabase): JobDeadlines {
  const due = db.store.prepare<[number, number], JobRow>(
    'SELECT * FROM jobs WHERE due_ms IS NOT NULL AND due_ms <= ? ORDER BY due_ms LIMIT ?',
  )
  const nextDue = db.store.prepare<[], number>('SELECT due_ms FROM jobs WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1').pluck()
  const held = db.store.prepare<[], JobRow & { holder: string }>('SELECT * FROM jobs WHERE holder IS NOT NULL')
  return {
    applyDeadlines: (nowMs) =>
      db.transaction(() => due.all(nowMs, maxDue).flatMap((row) => db.apply(row, { kind: 'tick' }, nowMs).effects)),
    nextDeadlineMs: () => nextDue.get() ?? null,
    setPresence(device, isPresent, nowMs) {
      const kind = isPresent ? 'present' : 'absent'
      const rows = db.heldBy(device)
      if (rows.length === 0) return []
      return db.transaction(() => rows.flatMap((row) => db.apply(row, { kind, device }, nowMs).effects))
    },
    markAllAbsent: (nowMs) =>
      db.transaction(() => {
        for (const row of held.all()) db.apply(row, { kind: 'absent', device: row.holder }, nowMs)
      }),
  }
}
