import { chmodSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'

export type Store = Database.Database

/** SQL that takes the database from version i to i + 1 (`user_version`); steps are only ever added. */
export type Migrations = readonly string[]

/** SQLite's words and numbers: what a commit waits for. */
const synchronousLevels = { NORMAL: 1, FULL: 2 } as const

/**
 * Opens (or makes) a database so that a commit is on disk when it returns: WAL, synchronous FULL (a reopened WAL
 * database would otherwise have NORMAL), foreign keys on, 5 s of patience with another process's lock; for its owner alone.
 * @param synchronous NORMAL: the last commits outlive this process, but not a power cut
 * @throws BrimError STORE_FAILED
 */
export function openDatabase(path: string, migrations: Migrations, synchronous: keyof typeof synchronousLevels = 'FULL'): Store {
  let store: Store | undefined
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    store = new Database(path, { timeout: 5_000 })
    // Before there is a log beside it, which takes its mode: prompts and answers are nobody else's.
    chmodSync(path, 0o600)
    store.pragma('journal_mode = WAL')
    store.pragma(`synchronous = ${synchronous}`)
    store.pragma('foreign_keys = ON')
    const level = store.pragma('synchronous', { simple: true })
    if (level !== synchronousLevels[synchronous]) throw new Error(`synchronous is ${level}, not ${synchronous}`)
    migrate(store, path, migrations)
    return store
  } catch (cause) {
    store?.close()
    if (cause instanceof BrimError) throw cause
    throw new BrimError('STORE_FAILED', `the database ${path} cannot be opened`, {
      cause,
      hint: 'is the folder writable, the disk not full, the file a database of ours? moved away, a new one is made',
    })
  }
}

function migrate(store: Store, path: string, migrations: Migrations): void {
  const step = store.transaction(() => {
    // Read inside the transaction: another process may have just migrated.
    const version = store.pragma('user_version', { simple: true }) as number
    if (version > migrations.length)
      throw new BrimError(
        'STORE_FAILED',
        `the database ${path} has version ${version}, this release knows ${migrations.length}`,
        { hint: 'it was written by a newer release: update this one' },
      )
    for (const sql of migrations.slice(version)) store.exec(sql)
    store.pragma(`user_version = ${migrations.length}`)
  })
  step.immediate()
}
