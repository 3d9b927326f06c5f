import { join } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import { makeFolder } from '../base/private-file.ts'
import { requireOwnFolder } from './as-owner.ts'

/** In every locked folder. */
export const lockFile = 'lock.sqlite'

/** Whether a process holds the lock of a folder now. Never throws: a folder that cannot be read is not locked. */
export function isFolderLocked(folder: string): boolean {
  let lock: Database.Database | undefined
  try {
    lock = new Database(join(folder, lockFile), { timeout: 0, readonly: true, fileMustExist: true })
    lock.pragma('user_version')
    return false
  } catch (cause) {
    return cause instanceof Database.SqliteError && cause.code.startsWith('SQLITE_BUSY')
  } finally {
    lock?.close()
  }
}

/**
 * Locks a folder for this process: two processes on the same databases would repeat each other's work. The operating system
 * releases the lock when the process ends, even by a crash.
 * @returns releases the lock
 * @throws BrimError STATE_IN_USE, STORE_FAILED
 */
export function lockFolder(folder: string): () => void {
  const path = join(folder, lockFile)
  let lock: Database.Database | undefined
  try {
    makeFolder(folder)
    requireOwnFolder(folder)
    lock = new Database(path, { timeout: 0 })
    // A file that this user can only read opens too, and its transaction excludes no one: a write tells. It is never committed.
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1')
    const held = lock
    return () => held.close()
  } catch (cause) {
    lock?.close()
    if (cause instanceof BrimError) throw cause
    const { code = '' } = cause instanceof Database.SqliteError ? cause : {}
    if (code.startsWith('SQLITE_BUSY'))
      throw new BrimError('STATE_IN_USE', `another process uses the folder ${folder}`, {
        hint: 'an agent or bridge is already running there; to run another one, choose another --state-dir',
      })
    if (code.startsWith('SQLITE_READONLY') || code.startsWith('SQLITE_CANTOPEN'))
      throw new BrimError('STORE_FAILED', `the lock ${path} cannot be written: another process could use the folder too`, {
        cause,
        hint: `does it belong to another user? it holds no data: end what runs on the folder, remove ${path}, start again`,
      })
    throw new BrimError('STORE_FAILED', `the folder ${folder} cannot be used`, {
      cause,
      hint: 'is it writable, and is there free disk space?',
    })
  }
}
