import { join } from 'node:path'
import { connectAsync, type MqttClient } from 'mqtt'
import { nowIso, systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { disableNagle } from '../../../core/kit/base/no-delay.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import { JobEvent, ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../../core/wire/protocol/messages.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { Cluster } from '../../cluster/cluster.ts'

interface DispatchLoad {
  readonly devices: number
  readonly jobs: number
  /** Jobs submitted per second. */
  readonly perS: number
}

/** Dispatch latency as the bridge measures it, with devices on loopback. */
interface DispatchRun extends DispatchLoad {
  readonly what: 'dispatch'
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of it, the median of the device's own commit, which waits for the disk; the bridge's, on the same disk, is another. */
  readonly deviceCommitP50Ms: number
}

interface DispatchLimits extends DispatchLoad {
  readonly bundle: string
  /** Folder of the databases, on a disk. */
  readonly dir: string
}

const kind = 'slm.generate'
const fleet = 'default'

/**
 * Dispatches jobs from a bridge process to devices that are MQTT connections of this process. Each device stores a job in
 * one commit at FULL, as an agent does, before it accepts the job, and finishes it at once.
 */
export async function benchDispatch(limits: DispatchLimits, io: Io, progress: (line: string) => void): Promise<DispatchRun> {
  const { bundle, dir, devices, jobs, perS } = limits
  progress('starting a bridge')
  await using cluster = await Cluster.create({ bundle, folder: dir, env: io.env, signal: io.signal })
  const { mqttUrl, httpUrl } = (await cluster.startBridge()).ready
  const inbox = openDatabase(join(dir, 'inbox.sqlite'), ['CREATE TABLE inbox (job TEXT, device TEXT, body TEXT) STRICT'])
  const clients: MqttClient[] = []
  try {
    progress(`connecting ${devices} devices`)
    const insert = inbox.prepare('INSERT INTO inbox (job, device, body) VALUES (?, ?, ?)')
    const commitsMs: number[] = []
    const store = (job: string, device: string, body: string) => {
      const begunMs = performance.now()
      insert.run(job, device, body)
      commitsMs.push(performance.now() - begunMs)
    }
    for (let i = 0; i < devices; i++) clients.push(await joinFleet(mqttUrl, `device-${i + 1}`, store))
    progress(`${jobs} jobs, ${perS} per second`)
    const startedMs = performance.now()
    let submitted = 0
    while (submitted < jobs) {
      const due = Math.min(jobs, Math.floor(((performance.now() - startedMs) / 1_000) * perS) + 1)
      for (; submitted < due; submitted++) await submit(httpUrl)
      await systemClock.sleep(1, io.signal)
    }
    const { p50, p99 } = await dispatchFigures(httpUrl, jobs)
    return { what: 'dispatch', devices, jobs, perS, p50Ms: p50, p99Ms: p99, deviceCommitP50Ms: median(commitsMs) }
  } finally {
    await Promise.all(clients.map((client) => client.endAsync(true)))
    inbox.close()
  }
}

async function joinFleet(
  url: string,
  device: string,
  store: (job: string, device: string, body: string) => void,
): Promise<MqttClient> {
  const client = await connectAsync(url, { clientId: `device-${device}`, protocolVersion: 4, reconnectPeriod: 0 })
  disableNagle(client.stream)
  const topic = (leaf: 'state' | 'jobs' | 'events') => deviceTopic(fleet, device, leaf)
  client.on('message', (_topic, payload) => {
    const message = ToJobDevice.parse(JSON.parse(payload.toString()))
    if (message.type !== 'run') return
    const { bridge, job, attempt } = message
    store(job, device, payload.toString())
    const report = (n: number, what: object) => {
      const event = JobEvent.parse({ v: 1, bridge, job, attempt, n, at: nowIso(), ...what })
      client.publish(topic('events'), JSON.stringify(event), { qos: 1 })
    }
    report(1, { type: 'accepted' })
    report(2, { type: 'running' })
    report(3, { type: 'succeeded', result: { text: 'Yes, it is.' } })
  })
  await client.subscribeAsync(topic('jobs'), { qos: 1 })
  const state: DeviceState = { v: 1, state: 'ready', birth: 1, at: nowIso(), jobs: [kind] }
  await client.publishAsync(topic('state'), JSON.stringify(state), { qos: 1, retain: true })
  return client
}

async function submit(httpUrl: string): Promise<void> {
  const body = JSON.stringify({ kind, input: { prompt: 'Is there a good hotel near the station?', maxTokens: 32 } })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${httpUrl}/v1/jobs`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  if (!response.ok) throw new BrimError('REQUEST_INVALID', `the bridge refused a job with status ${response.status}`)
}

/** Waits until all jobs are accepted. */
async function dispatchFigures(httpUrl: string, jobs: number): Promise<{ p50: number; p99: number }> {
  for (let tries = 0; tries < 300; tries++) {
    const health = (await (await fetch(`${httpUrl}/health`)).json()) as {
      jobs: { dispatchMs: { p50: number; p99: number; count: number } }
    }
    if (health.jobs.dispatchMs.count >= jobs) return health.jobs.dispatchMs
    await systemClock.sleep(100)
  }
  throw new BrimError('RUNTIME_FAILED', 'not all jobs were accepted within 30 s')
}
