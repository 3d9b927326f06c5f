import { chmodSync, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import { makeFolder } from '../base/private-file.ts'
import { requireOwnFolder } from './as-owner.ts'
import { createDatabase } from './create-database.ts'
import { damaged, isCorruption, requireSchema } from './damage.ts'
import { type Migrations, migrate, type Store } from './migrate.ts'
import { isStorageFull, lacksIndexSpace, storageFull } from './storage-full.ts'

export type { Migrations, Store }

/** SQLite's names and numbers of what a commit waits for. */
const synchronousLevels = { NORMAL: 1, FULL: 2 } as const
export type Synchronous = keyof typeof synchronousLevels

/**
 * Opens or creates a database whose commits are on disk when they return: WAL, synchronous FULL (a reopened WAL database
 * would have NORMAL), foreign keys on, a lock timeout of 5 s, readable by its owner only. On a full disk an existing one is opened
 * too: it can be read, and other processes cannot open it until this one ends.
 * @param synchronous NORMAL: the last commits survive a crash of the process, but not a power cut
 * @throws BrimError STORE_FAILED, STORE_DAMAGED, STORAGE_FULL
 */
export function openDatabase(path: string, migrations: Migrations, synchronous: Synchronous = 'FULL'): Store {
  try {
    makeFolder(dirname(path))
    requireOwnFolder(dirname(path))
    if (!existsSync(path)) createDatabase(path, migrations)
    try {
      return connect(path, migrations, synchronous, 'NORMAL')
    } catch (error) {
      if (!lacksIndexSpace(error)) throw error
      return connect(path, migrations, synchronous, 'EXCLUSIVE')
    }
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    if (isCorruption(cause)) throw damaged(path, 'its content cannot be read', cause)
    if (isStorageFull(cause)) throw storageFull(`the database ${path} is not opened`, cause)
    throw new BrimError('STORE_FAILED', `the database ${path} cannot be opened`, {
      cause,
      hint: isBusy(cause)
        ? 'a process that started on a full disk uses it alone: free space and restart that process'
        : 'is the folder writable, is there free disk space?',
    })
  }
}

const isBusy = (error: unknown) => error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')

function connect(path: string, migrations: Migrations, synchronous: Synchronous, locking: 'NORMAL' | 'EXCLUSIVE'): Store {
  const store = new Database(path, { timeout: 5_000 })
  try {
    // Before the WAL file is created, which gets the same mode: only the owner may read prompts and answers.
    chmodSync(path, 0o600)
    store.pragma(`locking_mode = ${locking}`)
    store.pragma('journal_mode = WAL')
    store.pragma(`synchronous = ${synchronous}`)
    store.pragma('foreign_keys = ON')
    // Without it, a row that another one replaces is deleted unseen by triggers.
    store.pragma('recursive_triggers = ON')
    const level = store.pragma('synchronous', { simple: true })
    if (level !== synchronousLevels[synchronous]) throw new Error(`synchronous is ${level}, not ${synchronous}`)
    requireSchema(store, path, migrations)
    migrate(store, path, migrations)
    return store
  } catch (error) {
    store.close()
    throw error
  }
}
