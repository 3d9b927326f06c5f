import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { Io } from '../../../core/kit/base/io.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { JobClient } from '../../cluster/job-client.ts'
import { startMosquitto } from '../../cluster/mosquitto.ts'
import { portOf, startRelay, through } from '../../cluster/relay.ts'

/** A bridge that is killed comes back within this time; longer is a finding. */
const maxUnreachableMs = 60_000

export const chaosBrokers = ['embedded', 'mosquitto'] as const

export interface ChaosOptions {
  /** Folder of a split bundle, and of a small whole one: devices generate with the small one. */
  readonly bundle: string
  readonly slm: string
  readonly agents: number
  /** In the bridge's process, or a mosquitto process. */
  readonly broker: (typeof chaosBrokers)[number]
  readonly io: Io
}

export type ChaosCluster = Awaited<ReturnType<typeof startChaosCluster>>

/** A bridge, a broker and some devices, all processes; the devices reach MQTT through a relay. */
export function startChaosCluster({ bundle, slm, agents, broker, io }: ChaosOptions) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const mosquitto = broker === 'mosquitto' ? await cluster.attach(startMosquitto({ guarded: false })) : undefined
    const bridge = await cluster.startBridge({ broker: mosquitto?.url })
    const { mqttUrl, httpUrl } = bridge.ready
    const mqttRelay = await cluster.attach(startRelay(portOf(mqttUrl)))
    const bridges = [through(mqttRelay, mqttUrl)]
    const ids = Array.from({ length: agents }, (_, at) => `device-${at}`)
    return {
      bridge,
      agents: await Promise.all(ids.map((id) => cluster.startAgent({ id, bridges, args: ['--slm', slm] }))),
      /** Undefined: the broker is in the bridge's process. */
      mosquitto,
      mqttRelay,
      jobs: new JobClient(httpUrl, io.signal, { maxUnreachableMs }),
      /** For each device, how often it has finished each job. */
      finishedJobs: () => ids.map((id) => finishedIn(join(cluster.stateDir(id), 'jobs.sqlite'))),
    }
  })
}

function finishedIn(path: string): Map<string, number> {
  if (!existsSync(path)) return new Map()
  const ledger = new Database(path, { readonly: true, timeout: 5_000 })
  try {
    const rows = ledger.prepare<[], { job: string; finished: number }>('SELECT job, finished FROM ledger').all()
    return new Map(rows.map(({ job, finished }) => [job, finished]))
  } finally {
    ledger.close()
  }
}
