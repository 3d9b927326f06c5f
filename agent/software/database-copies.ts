import { copyFileSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { makeFolder, renamePrivate, syncToDisk } from '../../core/kit/base/private-file.ts'

/** Counters of starts go on above those of the release that was undone: bridges tell starts apart by them. */
const birthsAhead = 1_000

/**
 * Copies the databases of a state folder, which no process has open. A newer release may migrate them, and this one could not
 * read them then. They are on disk on return.
 * @throws what the file system throws; there is no copy then
 */
export function copyDatabases(stateDir: string, to: string): void {
  rmSync(to, { recursive: true, force: true })
  const unfinished = `${to}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  makeFolder(unfinished)
  for (const name of databasesIn(stateDir)) {
    // Merges the log of a process that was killed.
    withDatabase(join(stateDir, name), (store) => store.pragma('wal_checkpoint(TRUNCATE)'))
    copyFileSync(join(stateDir, name), join(unfinished, name))
    syncToDisk(join(unfinished, name))
  }
  syncToDisk(unfinished)
  renamePrivate(unfinished, to)
}

/**
 * Restores the databases that another release has migrated. All others stay as they are, with what they have recorded since.
 * @returns names of the restored ones
 */
export function restoreMigrated(stateDir: string, from: string): string[] {
  const restored = databasesIn(from).filter((name) => versionOf(join(stateDir, name)) !== versionOf(join(from, name)))
  for (const name of restored) {
    const [copy, to] = [join(from, name), join(stateDir, name)]
    withDatabase(copy, (store) => {
      const hasBirths = store.prepare("SELECT 1 FROM sqlite_master WHERE name = 'births'").get() !== undefined
      if (hasBirths) store.prepare('UPDATE births SET birth = birth + ?').run(birthsAhead)
      store.pragma('journal_mode = DELETE')
    })
    for (const suffix of ['-wal', '-shm']) rmSync(`${to}${suffix}`, { force: true })
    // Needs no space: the other release may have filled the disk.
    renameSync(copy, to)
  }
  if (restored.length > 0) syncToDisk(stateDir)
  return restored
}

const databasesIn = (folder: string): string[] =>
  existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.sqlite')) : []

/** Number of migrations; undefined: there is no such database. */
const versionOf = (path: string): unknown =>
  existsSync(path) ? withDatabase(path, (store) => store.pragma('user_version', { simple: true })) : undefined

function withDatabase<T>(path: string, use: (store: Database.Database) => T): T {
  const store = new Database(path, { timeout: 5_000 })
  try {
    return use(store)
  } finally {
    store.close()
  }
}
