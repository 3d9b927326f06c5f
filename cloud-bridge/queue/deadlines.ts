import type { JobDatabase } from './job-database.ts'
import type { JobRow } from './job-tables.ts'

/** Deadlines of one transaction. */
const maxDue = 256

/** What time and the presence of devices change. Times are the wall clock in ms. */
export function createDeadlines(db: JobDatabase) {
  const due = db.store.prepare<[number, number], JobRow>(
    'SELECT * FROM jobs WHERE due_ms IS NOT NULL AND due_ms <= ? ORDER BY due_ms LIMIT ?',
  )
  const nextDue = db.store.prepare<[], number>('SELECT due_ms FROM jobs WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1').pluck()
  const held = db.store.prepare<[], JobRow & { holder: string }>('SELECT * FROM jobs WHERE holder IS NOT NULL')
  const heldBy = db.store.prepare<[string], JobRow>('SELECT * FROM jobs WHERE holder = ? ORDER BY n')
  return {
    /** Applies expired deadlines, up to a limit: call it again. */
    applyDeadlines: (nowMs: number) =>
      db.transaction(() => due.all(nowMs, maxDue).flatMap((row) => db.apply(row, { kind: 'tick' }, nowMs).effects)),
    /** Null: there is none. */
    nextDeadlineMs: () => nextDue.get() ?? null,
    /** A device became present or absent. */
    setPresence(device: string, isPresent: boolean, nowMs: number) {
      const kind = isPresent ? 'present' : 'absent'
      if (db.loads.isIdle(device)) return []
      return db.transaction(() => heldBy.all(device).flatMap((row) => db.apply(row, { kind, device }, nowMs).effects))
    },
    /** Counts every device as absent. */
    markAllAbsent: (nowMs: number): void =>
      db.transaction(() => {
        for (const row of held.all()) db.apply(row, { kind: 'absent', device: row.holder }, nowMs)
      }),
  }
}
