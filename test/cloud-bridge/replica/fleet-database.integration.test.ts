import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FileRow, FleetDatabase, firstPlace, type Primary } from '../../../cloud-bridge/replica/fleet-database.ts'
import { type Postgres, startPostgres } from '../../../lab/cluster/postgres.ts'
import { postgresMissing } from '../../support/postgres.ts'

const primary = (node: string): Primary => ({ node, url: `http://${node}`, pin: null, auth: true })
const row = (key: string, content: string | null): FileRow => ({ file: 'jobs.sqlite', table: 'jobs', key, row: content })

describe.skipIf(postgresMissing())('what the bridges of a fleet share', () => {
  let postgres: Postgres
  let admin: pg.Client
  const opened: FleetDatabase[] = []
  beforeAll(async () => {
    postgres = await startPostgres()
    admin = new pg.Client(postgres.url)
    await admin.connect()
    await admin.query('CREATE DATABASE fleets')
  })
  afterAll(async () => {
    await Promise.all(opened.map((each) => each.close()))
    await admin.end()
    await postgres[Symbol.asyncDispose]()
  })
  const open = async (fleet: string) => {
    const database = new FleetDatabase(postgres.url.replace(/postgres$/, 'fleets'), fleet)
    opened.push(database)
    await database.open()
    await database.create('bridge-1', { 'jobs.sqlite': 1 })
    return database
  }
  const contentOf = async (database: FleetDatabase) => {
    const found: Record<string, string | null> = {}
    for (let page = await database.rowsAfter(firstPlace); page; page = await database.rowsAfter(page.after))
      for (const { key, row: content } of page.rows) found[key] = content
    return found
  }
  const versions = { 'jobs.sqlite': 1 }

  it('has one lease, which one of many takes, and whose number fences what those before it write', async () => {
    const nodes = await Promise.all(['a', 'b', 'c', 'd'].map(async (name) => ({ name, database: await open('lease') })))
    const taken = await Promise.all(nodes.map(({ name, database }) => database.takeLease(primary(name), 0, 60_000)))
    expect(taken.filter((lease) => lease !== undefined)).toHaveLength(1)
    const first = nodes[taken.findIndex((lease) => lease !== undefined)]!
    const others = nodes.filter((node) => node !== first)
    expect(await first.database.ship(1, [row('[1]', '"first"')], versions)).toBe(true)
    expect(await others[0]!.database.takeLease(primary('e'), 1, 60_000)).toBeUndefined()
    await first.database.release(1)
    expect(await others[0]!.database.takeLease(primary('e'), 1, 60_000)).toMatchObject({ number: 2, gapMs: 0 })
    expect(await first.database.renew(1, 60_000, { pin: null }, undefined)).toBe(false)
    expect(await first.database.ship(1, [row('[1]', '"late"')], versions)).toBe(false)
    await first.database.release(1)
    expect(await contentOf(first.database)).toEqual({ '[1]': '"first"' })
    expect((await first.database.read())!.primary).toEqual(primary('e'))
  })

  it('takes the rows of a ship together, whatever their size, and none of one that follows on another state', async () => {
    const database = await open('ships')
    await database.takeLease(primary('a'), 0, 60_000)
    const large = Array.from({ length: 30 }, (_, at) => row(`[${at}]`, JSON.stringify('x'.repeat(500_000))))
    expect(await database.ship(1, large, versions)).toBe(true)
    expect(Object.keys(await contentOf(database))).toHaveLength(30)
    // A restored database: it has forgotten a ship.
    await admin.query('SELECT 1')
    const other = new pg.Client(postgres.url.replace(/postgres$/, 'fleets'))
    await other.connect()
    await other.query("UPDATE brim_fleets SET ship = ship - 1 WHERE fleet = 'ships'")
    await other.end()
    expect(await database.ship(1, [row('[0]', '"after"')], versions)).toBe(false)
  })

  it('is replaced as a whole by a migration: what it does not name is gone', async () => {
    const database = await open('migrated')
    await database.takeLease(primary('a'), 0, 60_000)
    await database.ship(1, [row('[1]', '"old"'), row('[2]', '"old"')], versions)
    expect(await database.shipAll(1, [[row('[1]', '"new"')], [row('[3]', '"new"')]], { 'jobs.sqlite': 2 }, 60_000)).toBe(true)
    expect(await contentOf(database)).toEqual({ '[1]': '"new"', '[2]': null, '[3]': '"new"' })
    expect((await database.read())!.versions).toEqual({ 'jobs.sqlite': 2 })
    // Interrupted, nothing of it is there.
    const broken = (function* () {
      yield [row('[1]', '"half"')]
      throw new Error('interrupted')
    })()
    await expect(database.shipAll(1, broken, { 'jobs.sqlite': 3 }, 60_000)).rejects.toThrow()
    expect(await contentOf(database)).toEqual({ '[1]': '"new"', '[2]': null, '[3]': '"new"' })
  })

  it('tells a copy that slept too long that deletions are missing', async () => {
    const database = await open('purged')
    await database.takeLease(primary('a'), 0, 60_000)
    await database.ship(1, [row('[1]', '"x"')], versions)
    await database.purge(0)
    expect((await database.read())!.purged).toBe(0)
    await database.ship(1, [row('[1]', null)], versions)
    await database.purge(0)
    expect((await database.read())!.purged).toBe(2)
    expect(await contentOf(database)).toEqual({})
  })

  it('has what each node serves, and whether it drains: as an operator asks, until it is started again', async () => {
    const database = await open('nodes')
    const node = { node: 'a', url: 'http://a', links: 3, sessions: 1, isDraining: false }
    expect(await database.announce(node)).toBe(false)
    await database.setDraining('a', true)
    expect(await database.announce(node)).toBe(true)
    expect(await database.nodes(60_000)).toEqual([{ ...node, isDraining: true }])
    expect(await database.nodes(0)).toEqual([])
    await database.setDraining('a', false)
    expect(await database.announce(node)).toBe(false)
    await database.setDraining('a', true)
    const restarted = await open('nodes')
    expect(await restarted.announce(node)).toBe(false)
    // One that is about to stop.
    expect(await restarted.announce({ ...node, isDraining: true })).toBe(true)
  })

  it('takes nodes of the release before, which do not tell what they serve, also where that has created its tables', async () => {
    const client = new pg.Client(postgres.url.replace(/postgres$/, 'fleets'))
    await client.connect()
    await client.query('ALTER TABLE brim_nodes DROP COLUMN links, DROP COLUMN sessions, DROP COLUMN drain')
    await client.query("INSERT INTO brim_nodes VALUES ('earlier', 'old', 'http://old', clock_timestamp())")
    const database = await open('earlier')
    await client.query("INSERT INTO brim_nodes VALUES ('earlier', 'older', 'http://older', clock_timestamp())")
    await client.end()
    const earlier = { links: null, sessions: 0, isDraining: false }
    expect(await database.nodes(60_000)).toEqual([
      { node: 'old', url: 'http://old', ...earlier },
      { node: 'older', url: 'http://older', ...earlier },
    ])
  })

  it('is reached again after it has refused a connection', async () => {
    const database = await open('refused')
    await database.close()
    await admin.query('ALTER DATABASE fleets ALLOW_CONNECTIONS false')
    for (let at = 0; at < 3; at++) await expect(database.read()).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    await admin.query('ALTER DATABASE fleets ALLOW_CONNECTIONS true')
    expect(await database.read()).toMatchObject({ bridge: 'bridge-1' })
  })
})
