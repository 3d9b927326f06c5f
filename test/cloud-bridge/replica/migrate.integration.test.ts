import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import type { Mosquitto } from '../../../lab/cluster/mosquitto.ts'
import { type Postgres, startPostgres } from '../../../lab/cluster/postgres.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { mosquittoMissing, startMosquitto } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

async function brim(...words: string[]) {
  const { io, out, err } = captureIo()
  const code = await run(words, io)
  return { code, out: out(), err: err() }
}

describe.skipIf(postgresMissing() || mosquittoMissing())('brim bridge migrate', () => {
  let dir: TempDir
  let postgres: Postgres
  let broker: Mosquitto
  beforeAll(async () => {
    dir = tempDir()
    postgres = await startPostgres()
    broker = await startMosquitto()
  })
  afterAll(async () => {
    await broker[Symbol.asyncDispose]()
    await postgres[Symbol.asyncDispose]()
    dir[Symbol.dispose]()
  })

  const folder = (name: string) => join(dir.path, name)
  const start = (name: string, settings: Partial<BridgeSettings> = {}) =>
    startTestBridge({ stateDir: folder(name), upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' }, ...settings })
  const shared = (): Partial<BridgeSettings> => ({
    database: { url: postgres.url, node: 'a' },
    broker: { url: broker.url },
    auth: false,
    mqttPort: undefined,
  })
  const contentOf = async ({ httpUrl }: { httpUrl: string }) => {
    const [jobs, tokens] = await Promise.all(
      ['/v1/jobs', '/v1/fleet'].map(async (path) => (await (await fetch(`${httpUrl}${path}`)).json()) as Record<string, unknown>),
    )
    return { jobs: jobs!.jobs, queued: tokens!.jobs }
  }
  const submit = async ({ httpUrl }: { httpUrl: string }, count: number) => {
    const body = JSON.stringify({
      jobs: Array.from({ length: count }, (_, at) => ({ kind: 'slm.generate', input: { prompt: `${at} ü` } })),
    })
    const response = await fetch(`${httpUrl}/v1/jobs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    expect(response.status).toBe(202)
  }
  const refused = (name: string, settings: Partial<BridgeSettings>, code: string, message: RegExp) =>
    expect(start(name, settings)).rejects.toMatchObject({ code, message: expect.stringMatching(message) })

  it('copies a bridge to PostgreSQL and back, and each bridge goes on with what the one before has stored', async () => {
    const alone = await start('alone')
    await submit(alone, 30)
    await alone.close()
    await refused('alone', shared(), 'CONFIG_INVALID', /without --database/)

    const moved = await brim('bridge', 'migrate', '--to', postgres.url, '--state-dir', folder('alone'), '--json')
    expect(moved).toMatchObject({ code: 0 })
    expect(JSON.parse(moved.out)).toMatchObject({
      fleet: 'default',
      bridge: 'bridge-1',
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    const again = await brim('bridge', 'migrate', '--to', postgres.url, '--state-dir', folder('alone'))
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining('knows the fleet "default" already') })
    await refused('alone', {}, 'CONFIG_INVALID', /are copies/)

    // Another machine: an empty folder.
    const first = await start('elsewhere', shared())
    const before = await contentOf(first)
    expect(before.queued).toMatchObject({ queued: 30 })
    await submit(first, 3)
    const running = await brim('bridge', 'migrate', '--from', postgres.url, '--state-dir', folder('back'))
    expect(running).toMatchObject({ code: 2, err: expect.stringContaining('stop its bridges first') })
    await first.close()

    const back = await brim('bridge', 'migrate', '--from', postgres.url, '--state-dir', folder('back'))
    expect(back).toMatchObject({ code: 0, out: expect.stringContaining('the same on both sides') })
    const last = await start('back')
    expect((await contentOf(last)).queued).toMatchObject({ queued: 33 })
    await last.close()
  })

  it('is not needed for a new fleet; two fleets share a database', async () => {
    const one = await start('one', { ...shared(), fleet: 'one' })
    const two = await start('two', { ...shared(), fleet: 'two' })
    await submit(one, 2)
    expect((await contentOf(one)).queued).toMatchObject({ queued: 2 })
    expect((await contentOf(two)).queued).toMatchObject({ queued: 0 })
    await one.close()
    await two.close()
  })

  it('nothing is changed in a database of another release, or for another bridge', async () => {
    await refused('other', { ...shared(), fleet: 'one', id: 'bridge-2' }, 'CONFIG_INVALID', /has bridge "bridge-1"/)
    await refused('other', { ...shared(), broker: undefined }, 'CONFIG_INVALID', /share a broker/)
    const client = new pg.Client(postgres.url)
    await client.connect()
    try {
      await client.query(
        `UPDATE brim_fleets SET versions = replace(versions, '"jobs.sqlite":', '"jobs.sqlite":9') WHERE fleet = 'one'`,
      )
      await refused('other', { ...shared(), fleet: 'one' }, 'STORE_FAILED', /a newer release|supports version/)
      await client.query('UPDATE brim_layout SET version = 2')
      await refused('other', { ...shared(), fleet: 'three' }, 'STORE_FAILED', /layout 2/)
      const { rows } = await client.query("SELECT fleet FROM brim_fleets WHERE fleet = 'three'")
      expect(rows).toEqual([])
    } finally {
      await client.end()
    }
    await refused(
      'other',
      { ...shared(), database: { url: 'postgres://127.0.0.1:9/none' } },
      'DATABASE_UNAVAILABLE',
      /127\.0\.0\.1:9/,
    )
  })
})
