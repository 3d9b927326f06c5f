import { createHash, randomBytes } from 'node:crypto'
import { realpathSync } from 'node:fs'
import type { Store } from '../../core/kit/store/open-database.ts'
import { hardwareOf } from './hardware.ts'

/** A migration: the random part of the instance id. */
export const instanceTable = 'CREATE TABLE instance (id INTEGER PRIMARY KEY CHECK (id = 1), random TEXT NOT NULL) STRICT'

/**
 * Distinguishes this agent from another one under the same device id; the same after a restart. A copy of the state folder,
 * on another machine or in another place of this one, has another instance. The database must have `instanceTable`.
 * @returns 16 hex digits
 */
export function instanceOf(store: Store, stateDir: string): string {
  store.prepare('INSERT OR IGNORE INTO instance (id, random) VALUES (1, ?)').run(randomBytes(16).toString('hex'))
  const random = store.prepare<[], string>('SELECT random FROM instance').pluck().get()
  const parts = [random, hardwareOf(), realpathSync(stateDir)]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}
