import { join } from 'node:path'
import type { MqttClient } from 'mqtt'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { JobClient } from '../../cluster/job-client.ts'
import { connectJobDevice } from '../../cluster/job-device.ts'
import { playInTime } from '../in-time.ts'

interface DispatchLoad {
  readonly devices: number
  readonly jobs: number
  /** Jobs submitted per second. */
  readonly perS: number
}

/** Dispatch latency as the bridge measures it, with devices on loopback. */
export interface DispatchRun extends DispatchLoad {
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

const job = { kind: 'slm.generate', input: { prompt: 'Is there a good hotel near the station?', maxTokens: 32 } }

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
    for (let at = 1; at <= devices; at++) {
      const id = `device-${at}`
      const device = await connectJobDevice(mqttUrl, { id }, (run) => {
        const body = JSON.stringify(run)
        const begunMs = performance.now()
        insert.run(run.job, id, body)
        commitsMs.push(performance.now() - begunMs)
      })
      clients.push(device)
    }
    progress(`${jobs} jobs, ${perS} per second`)
    const client = new JobClient(httpUrl, io.signal)
    const due = Array.from({ length: jobs }, (_, at) => ({ atMs: (1_000 * at) / perS }))
    await playInTime(due, io.signal, () => client.submit(job))
    const { p50, p99 } = await dispatchFigures(client, jobs)
    return { what: 'dispatch', devices, jobs, perS, p50Ms: p50, p99Ms: p99, deviceCommitP50Ms: median(commitsMs) }
  } finally {
    await Promise.all(clients.map((client) => client.endAsync(true)))
    inbox.close()
  }
}

/** Waits until all jobs are accepted. */
async function dispatchFigures(client: JobClient, jobs: number): Promise<{ p50: number; p99: number }> {
  for (let tries = 0; tries < 300; tries++) {
    const { count, p50, p99 } = await client.dispatchMs()
    if (count >= jobs && p50 !== null && p99 !== null) return { p50, p99 }
    await systemClock.sleep(100)
  }
  throw new BrimError('RUNTIME_FAILED', 'not all jobs were accepted within 30 s')
}
