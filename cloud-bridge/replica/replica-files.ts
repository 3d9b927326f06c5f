import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { RowJournal, unfollow } from '../../core/kit/store/row-journal.ts'
import { sharedDatabases } from '../databases.ts'
import { markReplica } from '../replica-marker.ts'
import type { FileRow, FleetRecord } from './fleet-database.ts'

/** Of this release. */
export const ownVersions: FleetRecord['versions'] = Object.fromEntries(
  sharedDatabases.map(({ file, migrations }) => [file, migrations.length]),
)

/** Of each file, where all rows are copied. */
const pageRows = 500

export interface UncopiedRows {
  readonly rows: readonly FileRow[]
  /** They are copied. */
  forget(): void
}

interface OpenFile {
  readonly file: string
  readonly store: Store
  readonly journal: RowJournal
}

/** The SQLite files of a bridge as copies of what PostgreSQL has: the working set of the primary, the replica of the others. */
export class ReplicaFiles {
  readonly #stateDir: string
  #files: OpenFile[] = []

  constructor(stateDir: string) {
    this.#stateDir = stateDir
  }

  /** Empty files. @throws BrimError STORE_FAILED where a newer release has written the rows */
  create(versions: FleetRecord['versions']): void {
    this.close()
    markReplica(this.#stateDir)
    for (const { file } of sharedDatabases)
      for (const suffix of ['', '-wal', '-shm']) rmSync(join(this.#stateDir, `${file}${suffix}`), { force: true })
    // A file that is newer than the rows is empty, whatever its version.
    this.#open((file, migrations) =>
      migrations.slice(0, requireVersion(file, versions[file] ?? migrations.length, migrations.length)),
    )
  }

  apply(rows: readonly FileRow[]): void {
    for (const { file, journal } of this.#files) {
      const own = rows.filter((row) => row.file === file)
      if (own.length > 0) journal.apply(own)
    }
  }

  /**
   * Brings the files from these versions to this release, and notes changes from now on.
   * @returns whether they differ: then every row counts as changed
   */
  follow(versions: FleetRecord['versions']): boolean {
    this.close()
    this.#open((_, migrations) => migrations)
    const isNew = sharedDatabases.some(({ file }) => versions[file] !== ownVersions[file])
    for (const { journal } of this.#files) journal.follow(isNew)
    return isNew
  }

  /** What has changed since it was forgotten. @param maxRows of each file; less than all may hold a part of a transaction */
  read(maxRows?: number): UncopiedRows {
    const changes = this.#files.flatMap(({ file, journal }) => {
      const found = journal.read(maxRows)
      return found ? [{ file, journal, found }] : []
    })
    return {
      rows: changes.flatMap(({ file, found }) => found.rows.map((row): FileRow => ({ file, ...row }))),
      forget() {
        for (const { journal, found } of changes) journal.forget(found)
      },
    }
  }

  /** Every row, in parts. Changes are not noted afterwards. */
  *all(): Generator<readonly FileRow[]> {
    for (const { journal } of this.#files) journal.follow(true)
    yield* pagesOf(this)
    for (const { store } of this.#files) unfollow(store)
  }

  /** Of one file. */
  store(file: string): Store {
    return this.#files.find((each) => each.file === file)!.store
  }

  close(): void {
    for (const { store } of this.#files) store.close()
    this.#files = []
  }

  #open(migrationsOf: (file: string, migrations: readonly string[]) => readonly string[]): void {
    for (const { file, migrations } of sharedDatabases) {
      const store = openDatabase(join(this.#stateDir, file), migrationsOf(file, migrations))
      // A copy need not survive a power cut.
      store.pragma('synchronous = OFF')
      store.pragma('foreign_keys = OFF')
      this.#files.push({ file, store, journal: new RowJournal(store) })
    }
  }
}

/** All that has changed, in parts; each is forgotten once the next is asked for. */
export function* pagesOf(files: ReplicaFiles): Generator<readonly FileRow[]> {
  for (let changes = files.read(pageRows); changes.rows.length > 0; changes = files.read(pageRows)) {
    yield changes.rows
    changes.forget()
  }
}

function requireVersion(file: string, version: number, supported: number): number {
  if (version <= supported) return version
  throw new BrimError('STORE_FAILED', `the shared ${file} has version ${version}; this release supports version ${supported}`, {
    hint: 'a newer release has written it: update this one',
  })
}
