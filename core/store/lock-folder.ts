import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'

/**
 * Holds a folder for this process alone: two that share one's databases would do each other's work again. The system gives
 * the lock back however the process ends.
 * @returns gives it back
 * @throws BrimError STATE_IN_USE, STORE_FAILED
 */
export function lockFolder(folder: string): () => void {
  let lock: Database.Database | undefined
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    lock = new Database(join(folder, 'lock.sqlite'), { timeout: 0 })
    lock.exec('BEGIN EXCLUSIVE')
    const held = lock
    return () => held.close()
  } catch (cause) {
    lock?.close()
    if (cause instanceof Database.SqliteError && cause.code.startsWith('SQLITE_BUSY'))
      throw new BrimError('STATE_IN_USE', `another process works with the folder ${folder}`, {
        hint: 'it is running already; for another one, name another folder with --state-dir',
      })
    throw new BrimError('STORE_FAILED', `the folder ${folder} cannot be used`, {
      cause,
      hint: 'is it writable, the disk not full?',
    })
  }
}
