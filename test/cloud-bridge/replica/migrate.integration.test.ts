import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { markReplica } from '../../../cloud-bridge/replica-marker.ts'
import { JobClient } from '../../../lab/cluster/job-client.ts'
import type { Mosquitto } from '../../../lab/cluster/mosquitto.ts'
import { type Postgres, startPostgres } from '../../../lab/cluster/postgres.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { mosquittoMissing, startMosquitto } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const cli = fileURLToPath(new URL('../../../dist/brim.js', import.meta.url))
const job = { kind: 'slm.generate', input: { prompt: 'Where is it?' } }

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
  /** A process without --database, which ends when it is asked to. */
  async function startAlone(name: string, fleet: string) {
    const words = ['--upstream', 'http://127.0.0.1:9/v1', '--upstream-model', 'none', '--mqtt-port', '0', '--http-port', '0']
    const started = await startBrim(['bridge', 'run', ...words, '--fleet', fleet, '--state-dir', folder(name)], {
      env: process.env,
    })
    return { url: String(started.ready.httpUrl), process: started }
  }
  const isReplica = (name: string) => existsSync(join(folder(name), 'replica'))
  const migrateWords = (name: string, way: '--to' | '--from', fleet: string) => [
    ...['bridge', 'migrate', way, postgres.url, '--state-dir', folder(name)],
    ...(way === '--from' ? ['--fleet', fleet] : []),
  ]
  const migrate = async (...move: Parameters<typeof migrateWords>) =>
    expect(await brim(...migrateWords(...move))).toMatchObject({
      code: 0,
      out: expect.stringContaining('the same on both sides'),
    })
  /** A process that is killed when it has copied the first rows. @returns what it printed */
  async function killMidway(...move: Parameters<typeof migrateWords>): Promise<string> {
    const child = spawn(process.execPath, [cli, ...migrateWords(...move)], { stdio: ['ignore', 'ignore', 'pipe'] })
    const ended = once(child, 'exit')
    let printed = ''
    for await (const text of child.stderr) {
      printed += String(text)
      if (/rows copied/.test(printed)) break
    }
    child.kill('SIGKILL')
    await ended
    return printed
  }
  /** Submits jobs until the bridge takes none. @returns those that were acknowledged */
  async function submitUntilRefused(url: string, migration: () => Promise<void>): Promise<string[]> {
    const client = new JobClient(url, new AbortController().signal, { maxUnreachableMs: 0 })
    const ids = [await client.submit(job)]
    const migrated = migration()
    for (let id: string | undefined = ''; id !== undefined; ) {
      id = await client.submit(job).catch(() => undefined)
      if (id !== undefined) ids.push(id)
    }
    await migrated
    return ids
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
    await first.close()

    const back = await brim('bridge', 'migrate', '--from', postgres.url, '--state-dir', folder('back'))
    expect(back).toMatchObject({ code: 0, out: expect.stringContaining('the same on both sides') })
    const last = await start('back')
    expect((await contentOf(last)).queued).toMatchObject({ queued: 33 })
    await last.close()
  })

  it('ends a bridge that runs, and loses no job that was acknowledged; so does the way back', async () => {
    const fleet = 'moving'
    const alone = await startAlone('running', fleet)
    const submitted = await submitUntilRefused(alone.url, () => migrate('running', '--to', fleet))
    await alone.process.stop()
    await refused('running', { fleet }, 'CONFIG_INVALID', /are copies/)

    const node = await start('running', { ...shared(), fleet })
    const standby = await start('standby', { ...shared(), fleet, database: { url: postgres.url, node: 'b' } })
    const areEnded = [node, standby].map(({ failed }) => expect(failed).rejects.toMatchObject({ code: 'CONFIG_INVALID' }))
    submitted.push(...(await submitUntilRefused(node.httpUrl, () => migrate('moved-back', '--from', fleet))))
    await Promise.all(areEnded)
    await Promise.allSettled([node.close(), standby.close()])
    await refused('running', { ...shared(), fleet }, 'CONFIG_INVALID', /no longer serves the fleet/)

    const last = await startAlone('moved-back', fleet)
    const client = new JobClient(last.url, new AbortController().signal)
    for (const id of submitted) expect(await client.show(id)).toMatchObject({ state: 'QUEUED' })
    await last.process.stop()
    // As after a kill before its last step.
    markReplica(folder('moved-back'), true)
    await refused('moved-back', { fleet }, 'CONFIG_INVALID', /are copies/)
    await migrate('moved-back', '--from', fleet)
    await (await start('moved-back', { fleet })).close()
  })

  it('can be killed: the bridge starts again as it was, and the command begins anew', async () => {
    const fleet = 'killed'
    const alone = await startAlone('killed', fleet)
    for (let at = 0; at < 20; at++) await submit({ httpUrl: alone.url }, 50)
    expect(await killMidway('killed', '--to', fleet)).toMatch(/the bridge ends/)
    await alone.process.stop()
    // On a busy machine it may have come to its end before it was killed.
    if (!isReplica('killed')) {
      const again = await startAlone('killed', fleet)
      await migrate('killed', '--to', fleet)
      await again.process.stop()
    }
    const node = await start('killed', { ...shared(), fleet })
    expect((await contentOf(node)).queued).toMatchObject({ queued: 1_000 })

    await killMidway('killed-back', '--from', fleet)
    if (isReplica('killed-back')) await migrate('killed-back', '--from', fleet)
    await expect(node.failed).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
    await Promise.allSettled([node.close()])
    const back = await start('killed-back', { fleet })
    expect((await contentOf(back)).queued).toMatchObject({ queued: 1_000 })
    await back.close()
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
