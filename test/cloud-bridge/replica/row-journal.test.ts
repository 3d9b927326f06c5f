import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sharedDatabases } from '../../../cloud-bridge/databases.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import { RowJournal, unfollow } from '../../../core/kit/store/row-journal.ts'
import { tempDir } from '../../support/temp-dir.ts'

const schema = [
  `CREATE TABLE pairs (a TEXT, b INTEGER, text TEXT, bytes BLOB, real REAL, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID;
   CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT UNIQUE) STRICT;
   CREATE TABLE parts (id INTEGER PRIMARY KEY, owner INTEGER REFERENCES names (id) ON DELETE CASCADE) STRICT;
   CREATE TABLE loose (value INTEGER) STRICT`,
]

const name = fc.constantFrom('x', 'y\u0000z', '"', 'ü😀')
const small = fc.integer({ min: 0, max: 3 })
const real = fc.oneof(fc.double({ noNaN: true }), fc.constantFrom(Number.POSITIVE_INFINITY, 5, null))
const change = fc.oneof(
  fc.tuple(fc.constant('INSERT OR REPLACE INTO pairs VALUES (?, ?, ?, ?, ?)'), fc.tuple(name, small, fc.string(), bytes(), real)),
  fc.tuple(fc.constant('UPDATE pairs SET a = ?, b = b + 10 WHERE b = ?'), fc.tuple(name, small)),
  fc.tuple(fc.constant('DELETE FROM pairs WHERE a = ?'), fc.tuple(name)),
  fc.tuple(fc.constant('INSERT OR REPLACE INTO names VALUES (?, ?)'), fc.tuple(small, name)),
  fc.tuple(fc.constant('DELETE FROM names WHERE id = ?'), fc.tuple(small)),
  fc.tuple(fc.constant('UPDATE OR IGNORE names SET name = ? WHERE id = ?'), fc.tuple(name, small)),
  fc.tuple(fc.constant('INSERT OR IGNORE INTO parts SELECT ?, id FROM names LIMIT 1'), fc.tuple(small)),
  fc.tuple(fc.constant('INSERT INTO loose VALUES (?)'), fc.tuple(small)),
  fc.tuple(fc.constant('DELETE FROM loose WHERE value = ?'), fc.tuple(small)),
)
/** Changes, and after some of them a copy, during which others happen. */
const history = fc.array(
  fc.record({ changes: fc.array(change, { maxLength: 6 }), isCopied: fc.boolean(), during: fc.array(change, { maxLength: 2 }) }),
  { maxLength: 8 },
)

function bytes() {
  return fc.option(fc.uint8Array({ maxLength: 8 }).map((array) => Buffer.from(array)))
}

const tables = ['pairs', 'names', 'parts', 'loose']
const contentOf = (store: Store) =>
  tables.map((table) => store.prepare(`SELECT ${table === 'loose' ? 'rowid, *' : '*'} FROM ${table} ORDER BY 1, 2`).all())

function apply(store: Store, [sql, values]: readonly [string, readonly unknown[]]): void {
  try {
    store.prepare<unknown[]>(sql).run(...values)
  } catch {
    // A violated constraint changes nothing.
  }
}

describe('rows that have changed', () => {
  it('make a copy equal, whatever happened to them, however often they are copied', () => {
    using dir = tempDir()
    let runs = 0
    fc.assert(
      fc.property(history, fc.array(change), (steps, before) => {
        runs += 1
        const [from, to] = ['from', 'to'].map((file) => openDatabase(`${dir.path}/${file}-${runs}.sqlite`, schema)) as [
          Store,
          Store,
        ]
        for (const each of before) apply(from, each)
        const noted = new RowJournal(openDatabase(from.name, schema))
        noted.follow(true)
        to.pragma('foreign_keys = OFF')
        const copy = new RowJournal(to)
        const copyAll = (during: typeof before = []) => {
          const left = [...during]
          for (let found = noted.read(2); found; found = noted.read(2)) {
            for (const each of left.splice(0, 1)) apply(from, each)
            copy.apply(found.rows)
            noted.forget(found)
          }
        }
        for (const { changes, isCopied, during } of steps) {
          from.transaction(() => {
            for (const each of changes) apply(from, each)
          })()
          if (isCopied) copyAll(during)
        }
        copyAll()
        expect(contentOf(to)).toEqual(contentOf(from))
        expect(noted.read()).toBeUndefined()
        from.close()
        to.close()
      }),
      { numRuns: 60 },
    )
  })

  it('are noted with their transaction: what is rolled back has not changed', () => {
    using dir = tempDir()
    const store = openDatabase(`${dir.path}/a.sqlite`, schema)
    const noted = new RowJournal(openDatabase(store.name, schema))
    noted.follow(false)
    expect(() =>
      store.transaction(() => {
        store.exec("INSERT INTO names VALUES (1, 'x')")
        throw new Error('no')
      })(),
    ).toThrow('no')
    expect(noted.read()).toBeUndefined()
    store.exec("INSERT INTO names VALUES (1, 'x')")
    const first = noted.read()!
    store.exec("UPDATE names SET name = 'y'")
    noted.forget(first)
    expect(noted.read()?.rows).toEqual([{ table: 'names', key: '[1]', row: '{"id":1,"name":"y"}' }])
    store.close()
  })

  it.each(sharedDatabases)('can be noted in every table of $file', ({ file, migrations }) => {
    using dir = tempDir()
    const store = openDatabase(`${dir.path}/${file}`, migrations)
    const noted = new RowJournal(store)
    noted.follow(true)
    const read = noted.read()
    for (const { row } of read?.rows ?? []) expect(row).not.toBeNull()
    // The next release finds its schema; so does a bridge that is restored from a backup of it.
    openDatabase(store.name, migrations).close()
    unfollow(store)
    const left = store.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'changed_row%'").all()
    expect(left).toEqual([])
    store.close()
  })
})
