import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'

/**
 * Locks a folder for this process: two processes on the same databases would repeat each other's work. The operating system
 * releases the lock when the process ends, even by a crash.
 * @returns releases the lock
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
      throw new BrimError('STATE_IN_USE', `another process uses the folder ${folder}`, {
        hint: 'an agent or bridge is already running there; to run another one, choose another --state-dir',
      })
    throw new BrimError('STORE_FAILED', `the folder ${folder} cannot be used`, {
      cause,
      hint: 'is it writable, and is there free disk space?',
    })
  }
}
