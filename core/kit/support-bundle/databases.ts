import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { Migrations } from '../store/open-database.ts'

export interface DatabaseFile {
  readonly file: string
  readonly migrations: Migrations
}

export interface ExaminedDatabase {
  readonly file: string
  readonly bytes: number
  /** Of its schema, and the one that this release writes. */
  readonly version: number
  readonly supported: number
  /** Rows of each table. */
  readonly rows: Readonly<Record<string, number>>
}

/** Sizes of the databases in a state folder, without any of their contents. The process they belong to may run. */
export function examineDatabases(
  stateDir: string,
  databases: readonly DatabaseFile[],
): (ExaminedDatabase | { readonly file: string; readonly error: string })[] {
  return databases
    .filter(({ file }) => existsSync(join(stateDir, file)))
    .map(({ file, migrations }) => {
      try {
        return examine(stateDir, file, migrations.length)
      } catch (error) {
        return { file, error: error instanceof Error ? error.message : String(error) }
      }
    })
}

function examine(stateDir: string, file: string, supported: number): ExaminedDatabase {
  const path = join(stateDir, file)
  const store = new Database(path, { readonly: true, timeout: 1_000 })
  try {
    const tables = store.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all()
    const rows = tables.map((table) => [table, store.prepare(`SELECT count(*) FROM "${table}"`).pluck().get() as number])
    const version = store.pragma('user_version', { simple: true }) as number
    return { file, bytes: statSync(path).size, version, supported, rows: Object.fromEntries(rows) }
  } finally {
    store.close()
  }
}
