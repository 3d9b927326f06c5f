import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { BrimError } from '../base/errors.ts'
import type { Store } from './migrate.ts'

/** What SQLite and the file system report where no space is left. SHMSIZE: not even for the index of a log (32 KB). */
const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE', 'ENOSPC', 'EDQUOT'])

/** Free space below which a disk counts as full: a job is smaller, and what has begun must still be able to end. */
const minFreeBytes = 2 ** 20

/** Whether an error, or its cause, is that no space is left. */
export function isStorageFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return ('code' in error && fullCodes.has(String(error.code))) || isStorageFull(error.cause)
}

/** @param what that was not stored */
export const storageFull = (what: string, cause: unknown): BrimError =>
  new BrimError('STORAGE_FULL', `${what}: no space is left on the disk`, {
    cause,
    hint: 'free space on the disk of the state folder; then repeat it',
  })

/** @throws if a database could store nothing now */
export function requireWritable(store: Store): void {
  requireSpace(store)
  // Free space proves nothing where writing itself fails. The same value is written again.
  store.pragma(`user_version = ${store.pragma('user_version', { simple: true })}`)
}

/** @throws Error where the disk of a database is full */
export function requireSpace(store: Store): void {
  const { bavail, bsize } = statfsSync(dirname(store.name))
  if (bavail * bsize < minFreeBytes) throw new Error('the disk is full')
}

/** Whether a database had to be opened for this process alone: a shared one needs space for an index of its log. */
export const isExclusive = (store: Store): boolean => store.pragma('locking_mode', { simple: true }) === 'exclusive'

/** Whether SQLite could not open a database because there is no space for the index of its log. */
export const lacksIndexSpace = (error: unknown): boolean =>
  error instanceof Database.SqliteError && error.code === 'SQLITE_IOERR_SHMSIZE'
