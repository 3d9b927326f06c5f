import type { Store } from './open-database.ts'
import { isStorageFull } from './storage-full.ts'

/** A migration: the table of the persisted start counter. */
export const birthsTable = 'CREATE TABLE births (id INTEGER PRIMARY KEY CHECK (id = 1), birth INTEGER NOT NULL) STRICT'

/**
 * Increments the start counter; 1 at the first start. It is on disk on return, except where the disk is full: a later start may get
 * the same number then. The database must have `birthsTable`.
 */
export function nextBirth(store: Store): number {
  const increment =
    'INSERT INTO births (id, birth) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET birth = birth + 1 RETURNING birth'
  try {
    return store.prepare<[], number>(increment).pluck().get()!
  } catch (error) {
    if (!isStorageFull(error)) throw error
    return 1 + (store.prepare<[], number>('SELECT birth FROM births').pluck().get() ?? 0)
  }
}

/** Leaves out so many numbers: the database is a copy, and the process has started since it was made. It must have `birthsTable`. */
export function skipBirths(store: Store, count: number): void {
  store.prepare('UPDATE births SET birth = birth + ?').run(count)
}
