import { readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { nowIso } from '../base/clock.ts'
import { BrimError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { isCorruption } from './damage.ts'
import { type Migrations, openDatabase, type Store, type Synchronous } from './open-database.ts'

/**
 * Opens a database of figures without which a process can go on: a damaged one is set aside, and an empty one takes its place.
 * By default its commits survive a crash of the process, but not a power cut.
 * @param read reads what is read at the start, so that damage is found now
 * @throws BrimError STORE_FAILED
 */
export function openReplaceable(
  path: string,
  migrations: Migrations,
  read: (store: Store) => unknown,
  logger: Logger,
  synchronous: Synchronous = 'NORMAL',
): Store {
  const open = () => openDatabase(path, migrations, synchronous)
  let store: Store | undefined
  try {
    store = open()
    read(store)
    return store
  } catch (err) {
    store?.close()
    if (!isDamage(err)) throw err
    const damaged = setAside(path)
    logger.warn({ err, damaged }, `${basename(path)} damaged: set aside, and begun anew`)
    return open()
  }
}

/** Of a database of figures: a migration that does not fit its tables, and text that is no JSON, too. */
function isDamage(error: unknown): boolean {
  if (error instanceof SyntaxError || isCorruption(error)) return true
  if (!(error instanceof BrimError)) return false
  const { code, cause } = error
  return code === 'STORE_DAMAGED' || (cause instanceof Database.SqliteError && cause.code === 'SQLITE_ERROR')
}

/** Keeps one damaged copy: a failing disk must not be filled with more. @returns its name */
function setAside(path: string): string {
  const folder = dirname(path)
  for (const name of readdirSync(folder))
    if (name.startsWith(`${basename(path)}.damaged-`)) rmSync(join(folder, name), { recursive: true, force: true })
  const to = `${path}.damaged-${nowIso().replace(/[:.]/g, '-')}`
  renameSync(path, to)
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true })
  return basename(to)
}
