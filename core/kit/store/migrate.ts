import type Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'

export type Store = Database.Database

/** SQL that takes the database from version i to i + 1 (`user_version`). Steps are only ever added. */
export type Migrations = readonly string[]

export const schemaVersionOf = (store: Store): number => store.pragma('user_version', { simple: true }) as number

/** @throws BrimError STORE_FAILED where a newer release has written it, and what SQLite throws */
export function migrate(store: Store, path: string, migrations: Migrations): void {
  const step = store.transaction(() => {
    // Read inside the transaction: another process may have just migrated.
    const version = schemaVersionOf(store)
    if (version > migrations.length)
      throw new BrimError(
        'STORE_FAILED',
        `the database ${path} has version ${version}; this release supports version ${migrations.length}`,
        { hint: 'a newer release has written it: update this one' },
      )
    if (version === migrations.length) return
    for (const sql of migrations.slice(version)) store.exec(sql)
    store.pragma(`user_version = ${migrations.length}`)
  })
  step.immediate()
}
