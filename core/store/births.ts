import type { Store } from './open-database.ts'

/** A migration: the table of the persisted start counter. */
export const birthsTable = 'CREATE TABLE births (id INTEGER PRIMARY KEY CHECK (id = 1), birth INTEGER NOT NULL) STRICT'

/** Increments the start counter; 1 at the first start. It is on disk on return. The database must have `birthsTable`. */
export function nextBirth(store: Store): number {
  const row = store
    .prepare<[], { birth: number }>(
      'INSERT INTO births (id, birth) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET birth = birth + 1 RETURNING birth',
    )
    .get()
  if (!row) throw new Error('the birth counter returned no row')
  return row.birth
}

/** Leaves out so many numbers: the database is a copy, and the process has started since it was made. It must have `birthsTable`. */
export function skipBirths(store: Store, count: number): void {
  store.prepare('UPDATE births SET birth = birth + ?').run(count)
}
