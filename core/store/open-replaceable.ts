import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { type Migrations, openDatabase, type Store } from './open-database.ts'

/**
 * Opens a database of figures without which a process can go on: a corrupt one is replaced by an empty one. Its commits
 * survive a crash of the process, but not a power cut.
 * @param read reads what is read at the start, so that damage is found now
 * @throws BrimError STORE_FAILED
 */
export function openReplaceable(path: string, migrations: Migrations, read: (store: Store) => unknown, logger: Logger): Store {
  const open = () => openDatabase(path, migrations, 'NORMAL')
  let store: Store | undefined
  try {
    store = open()
    read(store)
    return store
  } catch (err) {
    store?.close()
    const cause = err instanceof BrimError ? err.cause : err
    if (!(cause instanceof Database.SqliteError && corruptCodes.some((code) => cause.code.startsWith(code)))) throw err
    logger.warn({ err }, `${basename(path)} corrupt, replaced by an empty one`)
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
    return open()
  }
}

const corruptCodes = ['SQLITE_CORRUPT', 'SQLITE_NOTADB']
