import { chmodSync, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import { makeFolder } from '../base/private-file.ts'
import { requireOwnFolder } from './as-owner.ts'
import { createDatabase } from './create-database.ts'
import { damaged, isCorruption, requireSchema } from './damage.ts'
import { type Migrations, migrate, type Store } from './migrate.ts'

export type { Migrations, Store }

/** SQLite's names and numbers of what a commit waits for. */
const synchronousLevels = { NORMAL: 1, FULL: 2 } as const
export type Synchronous = keyof typeof synchronousLevels

/**
 * Opens or creates a database whose commits are on disk when they return: WAL, synchronous FULL (a reopened WAL database
 * would have NORMAL), foreign keys on, a lock timeout of 5 s, readable by its owner only.
 * @param synchronous NORMAL: the last commits survive a crash of the process, but not a power cut
 * @throws BrimError STORE_FAILED
 */
export function openDatabase(path: string, migrations: Migrations, synchronous: Synchronous = 'FULL'): Store {
  let store: Store | undefined
  try {
    makeFolder(dirname(path))
    requireOwnFolder(dirname(path))
    if (!existsSync(path)) createDatabase(path, migrations)
    store = new Database(path, { timeout: 5_000 })
    // Before the WAL file is created, which gets the same mode: only the owner may read prompts and answers.
    chmodSync(path, 0o600)
    store.pragma('journal_mode = WAL')
    store.pragma(`synchronous = ${synchronous}`)
    store.pragma('foreign_keys = ON')
    const level = store.pragma('synchronous', { simple: true })
    if (level !== synchronousLevels[synchronous]) throw new Error(`synchronous is ${level}, not ${synchronous}`)
    requireSchema(store, path, migrations)
    migrate(store, path, migrations)
    return store
  } catch (cause) {
    store?.close()
    if (cause instanceof BrimError) throw cause
    if (isCorruption(cause)) throw damaged(path, 'its content cannot be read', cause)
    throw new BrimError('STORE_FAILED', `the database ${path} cannot be opened`, {
      cause,
      hint: 'is the folder writable, is there free disk space?',
    })
  }
}
