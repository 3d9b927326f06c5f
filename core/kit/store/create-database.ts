import { closeSync, linkSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { syncToDisk } from '../base/private-file.ts'
import { type Migrations, migrate } from './migrate.ts'

/**
 * Creates a database that has its schema from the first moment on: a crash meanwhile leaves none, so that an empty one is always
 * damaged. Keeps one that another process has created meanwhile. Throws what SQLite and the file system throw.
 */
export function createDatabase(path: string, migrations: Migrations): void {
  const unfinished = `${path}.${process.pid}.new`
  rmSync(unfinished, { force: true })
  try {
    // Only the owner may read it, and no link that another user has put there is followed.
    closeSync(openSync(unfinished, 'wx', 0o600))
    const store = new Database(unfinished)
    try {
      migrate(store, path, migrations)
    } finally {
      store.close()
    }
    giveName(unfinished, path)
  } finally {
    rmSync(unfinished, { force: true })
  }
  syncToDisk(dirname(path))
}

function giveName(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return
    // A file system without links.
    renameSync(from, to)
  }
}
