import { join } from 'node:path'
import { expect, it } from 'vitest'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { Rollout, RolloutDevice } from '../../../core/wire/protocol/http/rollouts.ts'
import type { JobAck, ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { mqttClient, powerCut } from '../../support/broker.ts'
import { runBrim } from '../../support/run-brim.ts'
import { tempDir } from '../../support/temp-dir.ts'

const at = new Date(0).toISOString()

/** A device that takes every job, and reports what the test says until the bridge has acknowledged it. */
async function connectDevice(mqttUrl: string, id: string, finish: (job: string) => Promise<'succeeds' | 'never'>) {
  const topic = (leaf: Parameters<typeof deviceTopic>[2]) => deviceTopic('default', id, leaf)
  const state = (word: string) => JSON.stringify({ v: 1, state: word, birth: 1, at, jobs: ['config.apply'] })
  const will = { topic: topic('state'), payload: Buffer.from(state('lost')), qos: 1, retain: true } as const
  const client = await mqttClient(mqttUrl, `device-${id}`, { reconnectPeriod: 100, will })
  const jobs = new Set<string>()
  const canceled = new Set<string>()
  const unacknowledged = new Map<string, string>()
  const seen = new Set<string>()
  const send = (payload: string) => void client.publishAsync(topic('events'), payload, { qos: 1 }).catch(() => {})
  client.on('message', (on, payload) => {
    const message = JSON.parse(payload.toString()) as ToJobDevice | JobAck
    const { bridge, job, attempt } = message
    if (!('type' in message)) {
      for (const key of unacknowledged.keys())
        if (key.startsWith(`${job} ${attempt} `) && Number(key.split(' ')[2]) <= message.n) unacknowledged.delete(key)
      return
    }
    if (message.type === 'cancel') return void canceled.add(job)
    if (on !== topic('jobs') || seen.has(`${job} ${attempt}`)) return
    seen.add(`${job} ${attempt}`)
    jobs.add(job)
    const report = (n: number, fields: object) => {
      const event = JSON.stringify({ v: 1, bridge, job, attempt, n, at, ...fields })
      unacknowledged.set(`${job} ${attempt} ${n}`, event)
      send(event)
    }
    report(1, { type: 'accepted' })
    report(2, { type: 'running' })
    void finish(job).then((how) => {
      if (how === 'succeeds') report(3, { type: 'succeeded', result: { applied: [], kept: [] } })
    })
  })
  const announce = () => client.publishAsync(topic('state'), state('ready'), { qos: 1, retain: true }).catch(() => {})
  client.on('connect', () => void announce())
  await client.subscribeAsync([topic('jobs'), topic('acks')], { qos: 1 })
  await announce()
  const resend = setInterval(() => {
    for (const event of unacknowledged.values()) send(event)
  }, 300)
  return {
    jobs,
    canceled,
    vanish: () => powerCut(client),
    async [Symbol.asyncDispose]() {
      clearInterval(resend)
      await client.endAsync(true)
    },
  }
}

it('a rollout survives a killed bridge and a device that vanishes, and an abort under way ends it', async () => {
  using dir = tempDir()
  const [http, mqtt] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${http}`
  const upstream = ['--upstream', 'http://127.0.0.1:1', '--upstream-model', 'none']
  const ports = ['--http-port', String(http), '--mqtt-port', String(mqtt)]
  const args = ['bridge', 'run', ...upstream, '--state-dir', dir.path, ...ports, '--limit', 'rolloutSoakS=0']
  const start = () => startBrim(args, { env: process.env })
  const brim = (...words: string[]) => runBrim(['rollout', ...words, '--bridge-url', url])
  let bridge = await start()
  let isReleased = false
  const released = async () => {
    while (!isReleased) await new Promise((resolve) => setTimeout(resolve, 20))
    return 'succeeds' as const
  }
  const mqttUrl = `mqtt://127.0.0.1:${mqtt}`
  await using a = await connectDevice(mqttUrl, 'a', async () => 'succeeds')
  await using b = await connectDevice(mqttUrl, 'b', released)
  await using c = await connectDevice(mqttUrl, 'c', async () => {
    c.vanish()
    return released()
  })
  await using d = await connectDevice(mqttUrl, 'd', async () => 'never')
  const all = [a, b, c, d]
  const statesOf = async (id: string) => {
    const { devices } = JSON.parse((await brim('status', id, '--devices', '--json')).out) as { devices: RolloutDevice[] }
    return devices.map(({ state }) => state).join(' ')
  }
  try {
    const set = ['create', 'config', '--set', 'heartbeat=30']
    await expect.poll(async () => (await brim(...set, '--all', '--dry-run')).out.trim()).toBe('a\nb\nc\nd')
    const created = await brim(...set, '--all', '--first', '1', '--rate', '600/min')
    const id = created.out.trim()
    expect(created).toMatchObject({ code: 0, err: '' })
    // Once the first device has succeeded the others start, and are in the middle when the bridge is killed.
    await expect.poll(() => statesOf(id)).toBe('succeeded started started started')
    await expect.poll(() => all.map(({ jobs }) => jobs.size)).toEqual([1, 1, 1, 1])
    await bridge.kill()
    isReleased = true
    bridge = await start()
    const watching = brim('status', id, '--watch')
    await expect.poll(() => statesOf(id)).toBe('succeeded succeeded succeeded started')
    expect((await brim('create', 'config', '--reset', '--device', 'd')).err).toContain(`takes part in, rollout ${id}`)
    expect(await brim('abort', id)).toMatchObject({ code: 0, out: expect.stringContaining('aborted: by anyone  4 of 4') })
    expect(await watching).toMatchObject({ code: 1, err: expect.stringContaining('3 of 4 devices succeeded') })
    expect(await statesOf(id)).toBe('succeeded succeeded succeeded canceled')
    await expect.poll(() => [...d.canceled]).toEqual([...d.jobs])
    expect(all.map(({ jobs }) => jobs.size)).toEqual([1, 1, 1, 1])
    expect((await brim('list')).out).toContain('3/4')
    const { devices } = JSON.parse((await brim('status', '--json')).out) as Rollout
    expect(devices).toEqual({ total: 4, waiting: 0, started: 0, succeeded: 3, failed: 0, canceled: 1, skipped: 0, soaking: 0 })
  } finally {
    await bridge.stop()
  }
  const store = openDatabase(join(dir.path, 'jobs.sqlite'), jobTables)
  expect(store.prepare('SELECT count(*) FROM jobs').pluck().get()).toBe(4)
  store.close()
}, 60_000)
