import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import { type Migrations, migrate, type Store, schemaVersionOf } from './migrate.ts'

const corruptCodes = ['SQLITE_CORRUPT', 'SQLITE_NOTADB', 'SQLITE_IOERR_SHORT_READ']

/** Whether SQLite has found that a file is no database, or a broken one. */
export const isCorruption = (error: unknown): boolean =>
  error instanceof Database.SqliteError && corruptCodes.some((code) => error.code.startsWith(code))

export const damaged = (path: string, what: string, cause?: unknown): BrimError =>
  new BrimError('STORE_DAMAGED', `the database ${path} is damaged: ${what}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'restore it from a backup (of a bridge: "brim bridge restore"); to begin anew without what it held, move it away',
  })

/**
 * An existing database has the tables of its version: an empty one was not created by a release, and has lost what it held.
 * @throws BrimError STORE_DAMAGED
 */
export function requireSchema(store: Store, path: string, migrations: Migrations): void {
  if (migrations.length === 0) return
  if (statSync(path).size === 0) throw damaged(path, 'it is empty')
  const version = schemaVersionOf(store)
  if (version === 0) throw damaged(path, 'it has no schema')
  if (version > migrations.length) return
  const names = namesIn(store)
  const missing = namesAt(migrations.slice(0, version)).find((name) => !names.includes(name))
  if (missing !== undefined) throw damaged(path, `its part "${missing}" is missing`)
}

const namesIn = (store: Store): string[] =>
  store.prepare<[], string>("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").pluck().all()

function namesAt(migrations: Migrations): string[] {
  const store = new Database(':memory:')
  try {
    migrate(store, ':memory:', migrations)
    return namesIn(store)
  } finally {
    store.close()
  }
}
