import { chmodSync, existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import { matchOwner } from '../base/match-owner.ts'

export type Store = Database.Database

/** SQL that takes the database from version i to i + 1 (`user_version`). Steps are only ever added. */
export type Migrations = readonly string[]

/** SQLite's names and numbers of what a commit waits for. */
const synchronousLevels = { NORMAL: 1, FULL: 2 } as const

/**
 * Opens or creates a database whose commits are on disk when they return: WAL, synchronous FULL (a reopened WAL database
 * would have NORMAL), foreign keys on, a lock timeout of 5 s, readable by its owner only.
 * @param synchronous NORMAL: the last commits survive a crash of the process, but not a power cut
 * @throws BrimError STORE_FAILED
 */
export function openDatabase(path: string, migrations: Migrations, synchronous: keyof typeof synchronousLevels = 'FULL'): Store {
  let store: Store | undefined
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const isNew = !existsSync(path)
    store = new Database(path, { timeout: 5_000 })
    if (isNew) matchOwner(path)
    // Before the WAL file is created, which gets the same mode: only the owner may read prompts and answers.
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
      hint: 'is the folder writable, is there free disk space? if the file is corrupt, move it away and a new one is created',
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
        `the database ${path} has version ${version}; this release supports version ${migrations.length}`,
        { hint: 'a newer release has written it: update this one' },
      )
    for (const sql of migrations.slice(version)) store.exec(sql)
    store.pragma(`user_version = ${migrations.length}`)
  })
  step.immediate()
}
