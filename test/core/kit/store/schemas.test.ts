import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { agentDatabases } from '../../../../agent/databases.ts'
import { bridgeDatabases } from '../../../../cloud-bridge/databases.ts'
import { type Migrations, openDatabase } from '../../../../core/kit/store/open-database.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const databases: [string, Migrations][] = [
  ...agentDatabases.map(({ file, migrations }): [string, Migrations] => [`agent/${file}`, migrations]),
  ...bridgeDatabases.map(({ file, migrations }): [string, Migrations] => [`bridge/${file}`, migrations]),
]

/** Tables, columns and indexes; the text of a column that was added later is elsewhere in the table's own. */
function schemaAt(path: string, migrations: Migrations) {
  const store = openDatabase(path, migrations, 'NORMAL')
  try {
    const names = store
      .prepare("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name")
      .raw()
      .all() as [string, string][]
    return names.map(([type, name]) => [type, name, type === 'table' ? store.pragma(`table_info(${name})`) : []])
  } finally {
    store.close()
  }
}

describe.each(databases)('%s', (_, migrations) => {
  it('reaches its schema from that of each earlier release', () => {
    using dir = tempDir()
    const fresh = schemaAt(join(dir.path, 'fresh.sqlite'), migrations)
    for (let version = 1; version < migrations.length; version++) {
      const path = join(dir.path, `${version}.sqlite`)
      openDatabase(path, migrations.slice(0, version), 'NORMAL').close()
      expect(schemaAt(path, migrations)).toEqual(fresh)
    }
  })

  it('is refused once a newer release has written it, and stays as it is', () => {
    using dir = tempDir()
    const path = join(dir.path, 'one.sqlite')
    const newer = [...migrations, 'CREATE TABLE of_a_newer_release (x TEXT) STRICT']
    openDatabase(path, newer, 'NORMAL').close()
    expect(() => openDatabase(path, migrations)).toThrow(
      expect.objectContaining({ code: 'STORE_FAILED', hint: expect.stringContaining('newer release') }),
    )
    openDatabase(path, newer).close()
  })
})
