import type Database from 'better-sqlite3'
import type { Store } from './migrate.ts'

const noted = 'changed_rows'
const triggerPrefix = 'changed_row_'

/** A row of a SQLite table. */
export interface Row {
  readonly table: string
  /** JSON list of the values of its primary key. */
  readonly key: string
  /** JSON by column; null: there is none, it was deleted. */
  readonly row: string | null
}

export interface RowChanges {
  readonly rows: readonly Row[]
  /** For `forget`. */
  readonly upTo: number
}

/**
 * The rows of a database that have changed since they were last copied elsewhere: triggers note their keys in the transaction of
 * the change, whichever connection or process makes it. Rows that change often are copied once.
 */
export class RowJournal {
  readonly #store: Store
  /** By their SQL. */
  readonly #statements = new Map<string, Database.Statement<unknown[], unknown>>()
  /** Columns of the primary key, by table. */
  readonly #tables: ReadonlyMap<string, readonly string[]>

  /** @param store with its schema, on a connection of its own */
  constructor(store: Store) {
    this.#store = store
    this.#tables = new Map(tableNames(store).map((name) => [name, keyOf(store, name)]))
  }

  /** From now on changes are noted. @param all every row counts as changed */
  follow(all: boolean): void {
    const sql = [
      `CREATE TABLE IF NOT EXISTS ${noted} (
        n INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (name, key)) STRICT`,
    ]
    for (const [name, key] of this.#tables) {
      const keyIn = (row: string) => `json_array(${key.map((column) => `${row}${column}`).join(', ')})`
      // Not INSERT OR REPLACE: in a trigger, OR IGNORE of the statement that fires it would apply, and the note would keep its number.
      const note = (row: 'NEW' | 'OLD') =>
        `DELETE FROM ${noted} WHERE name = '${name}' AND key = ${keyIn(`${row}.`)};
         INSERT INTO ${noted} (name, key) VALUES ('${name}', ${keyIn(`${row}.`)});`
      const events = { INSERT: ['NEW'], UPDATE: ['OLD', 'NEW'], DELETE: ['OLD'] } as const
      for (const [event, rows] of Object.entries(events))
        sql.push(
          `CREATE TRIGGER IF NOT EXISTS ${triggerPrefix}${name}_${event} AFTER ${event} ON ${name}
            BEGIN ${rows.map(note).join(' ')} END`,
        )
      if (all) sql.push(`INSERT OR REPLACE INTO ${noted} (name, key) SELECT '${name}', ${keyIn('')} FROM ${name}`)
    }
    this.#store.transaction(() => this.#store.exec(sql.join(';\n')))()
  }

  /**
   * What has changed, as it is now; undefined: nothing. Call `forget` once it is copied.
   * @param maxRows less than all may hold a part of a transaction
   */
  read(maxRows = -1): RowChanges | undefined {
    return this.#store.transaction(() => {
      const keys = this.#prepare<{ n: number; name: string; key: string }>(
        `SELECT n, name, key FROM ${noted} ORDER BY n LIMIT ?`,
      ).all(maxRows)
      const last = keys.at(-1)
      if (!last) return undefined
      return { rows: keys.map(({ name, key }) => ({ table: name, key, row: this.#find(name, key) })), upTo: last.n }
    })()
  }

  forget({ upTo }: RowChanges): void {
    this.#prepare(`DELETE FROM ${noted} WHERE n <= ?`).run(upTo)
  }

  /** Stores rows that were copied from another database of this schema. */
  apply(rows: readonly Row[]): void {
    this.#store.transaction(() => {
      for (const { table, key, row } of rows) {
        const keyColumns = this.#tables.get(table)
        if (!keyColumns) throw new Error(`no table ${table} in ${this.#store.name}`)
        if (row === null) this.#delete(table, keyColumns, JSON.parse(key) as unknown[])
        else this.#put(table, JSON.parse(row) as Record<string, unknown>)
      }
    })()
  }

  #find(name: string, key: string): string | null {
    const columns = this.#tables.get(name)!
    const rowid = columns[0] === 'rowid' ? 'rowid, ' : ''
    const found = this.#prepare<Record<string, unknown>>(`SELECT ${rowid}* FROM ${name} WHERE ${matching(columns)}`).get(
      ...(JSON.parse(key) as unknown[]),
    )
    return found === undefined ? null : JSON.stringify(found, toJson)
  }

  #delete(name: string, key: readonly string[], values: readonly unknown[]): void {
    this.#prepare(`DELETE FROM ${name} WHERE ${matching(key)}`).run(...values)
  }

  #put(name: string, row: Record<string, unknown>): void {
    const columns = Object.keys(row)
    const places = columns.map(() => '?').join(', ')
    this.#prepare(`INSERT OR REPLACE INTO ${name} (${columns.join(', ')}) VALUES (${places})`).run(
      ...Object.values(row).map(fromJson),
    )
  }

  #prepare<Found>(sql: string): Database.Statement<unknown[], Found> {
    const known = this.#statements.get(sql) ?? this.#store.prepare<unknown[], unknown>(sql)
    this.#statements.set(sql, known)
    return known as Database.Statement<unknown[], Found>
  }
}

/** Changes are noted no longer, for a database that is no copy any more. */
export function unfollow(store: Store): void {
  const triggers = store
    .prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE '${triggerPrefix}%'`)
    .pluck()
    .all()
  store.exec([...triggers.map((name) => `DROP TRIGGER ${name}`), `DROP TABLE IF EXISTS ${noted}`].join(';'))
}

const matching = (columns: readonly string[]) => columns.map((column) => `${column} = ?`).join(' AND ')

const tableNames = (store: Store): string[] =>
  store
    .prepare<[], string>(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> '${noted}' ORDER BY name`,
    )
    .pluck()
    .all()

function keyOf(store: Store, name: string): string[] {
  const columns = store.pragma(`table_info(${name})`) as { name: string; type: string; pk: number }[]
  const key = columns.filter(({ pk }) => pk > 0).toSorted((a, b) => a.pk - b.pk)
  if (key.some(({ type }) => type === 'BLOB')) throw new Error(`the key of ${name} is binary`)
  return key.length > 0 ? key.map((column) => column.name) : ['rowid']
}

/** JSON has neither bytes nor all numbers of SQLite. */
function toJson(this: unknown, _: string, value: unknown): unknown {
  // A Buffer has become its own JSON by now.
  if (isBufferJson(value)) return { hex: Buffer.from(value.data).toString('hex') }
  return typeof value === 'number' && !Number.isFinite(value) ? { number: String(value) } : value
}

const isBufferJson = (value: unknown): value is { data: number[] } =>
  typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer'

function fromJson(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return 'hex' in value ? Buffer.from(value.hex as string, 'hex') : Number((value as { number: string }).number)
}
