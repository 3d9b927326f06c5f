import type { Io } from '../../../core/kit/base/io.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { cpuSeconds } from '../../cluster/cpu-times.ts'
import { JobClient } from '../../cluster/job-client.ts'
import { rssMb } from '../../cluster/memory.ts'
import { startMosquitto } from '../../cluster/mosquitto.ts'
import { brimOutput } from '../../cluster/processes.ts'

export const fleetBrokers = ['embedded', 'mosquitto'] as const
export type FleetBroker = (typeof fleetBrokers)[number]

interface FleetClusterOptions {
  /** Folder of a split bundle. */
  readonly bundle: string
  readonly broker: FleetBroker
  /** Devices that connect in all. */
  readonly devices: number
  readonly io: Io
}

export type FleetCluster = Awaited<ReturnType<typeof startFleetCluster>>

/** A bridge and its broker, as processes, and what the benchmark asks of them. */
export function startFleetCluster({ bundle, broker, devices, io }: FleetClusterOptions) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const mosquitto = broker === 'mosquitto' ? await cluster.attach(startMosquitto({ guarded: false })) : undefined
    // Anonymous devices: enrolment would measure signatures. The defaults of these limits are for fleets of their size.
    const limits = { unenrolledDevices: devices, mqttConnections: devices + 64 }
    const args = Object.entries(limits).flatMap(([name, value]) => ['--limit', `${name}=${value}`])
    const bridge = await cluster.startBridge({ broker: mosquitto?.url, args })
    const { httpUrl } = bridge.ready
    const pids = () => [bridge.pid, ...(mosquitto ? [mosquitto.pid] : [])]
    return {
      mqttUrl: bridge.ready.mqttUrl,
      httpUrl,
      jobs: new JobClient(httpUrl, io.signal),
      /** Of bridge and broker, their children not counted. */
      cpuS: () => cpuSeconds(pids()) ?? 0,
      /** Of the process that devices are connected to. */
      brokerCpuS: () => cpuSeconds([mosquitto?.pid ?? bridge.pid]) ?? 0,
      /** Peak of each process so far, in all. */
      rssMb: () => pids().reduce((sum, pid) => sum + (rssMb(pid)?.peak ?? 0), 0),
      /** Kills the process that devices are connected to, and starts it again. */
      restartBroker: () => (mosquitto ? mosquitto.restart() : bridge.restart()),
      readyDevices: () => readyDevices(httpUrl, io.signal),
      /** @returns seconds, from the start of the process to its end */
      async fleetStatusS(): Promise<number> {
        const startedMs = performance.now()
        await brimOutput(['fleet', 'status', '--bridge', httpUrl], io)
        return (performance.now() - startedMs) / 1_000
      },
    }
  })
}

/** Devices that the bridge counts as ready, in its metrics. */
async function readyDevices(httpUrl: string, signal: AbortSignal): Promise<number> {
  const response = await fetch(`${httpUrl}/metrics`, { signal })
  return Number(/^brim_devices\{state="ready"\} (\d+)/m.exec(await response.text())?.[1] ?? 0)
}

/**
 * Follows the events of these devices at the bridge until the signal is aborted.
 * @param onSample with the time from the publication of a sample until the bridge shows it, in ms
 */
export async function watchSamples(
  httpUrl: string,
  devices: readonly string[],
  onSample: (ms: number) => void,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(
    devices.map(async (device) => {
      const headers = { accept: 'text/event-stream' }
      const response = await fetch(`${httpUrl}/v1/devices/${device}/events`, { headers, signal })
      for await (const data of readSse(response.body!)) {
        const { type, now } = JSON.parse(data) as { type: string; now: { telemetry: { at: string } | null } | null }
        if (type === 'telemetry' && now?.telemetry) onSample(Date.now() - Date.parse(now.telemetry.at))
      }
    }),
  ).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}
