import { BridgeClient } from '../../../cloud-bridge/commands/bridge-client.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { type BridgeNode, Cluster } from '../../cluster/cluster.ts'
import { cpuSeconds } from '../../cluster/cpu-times.ts'
import { laboratoryProgram } from '../../cluster/processes.ts'
import { portOf } from '../../cluster/relay.ts'
import { startShapedLink } from '../../cluster/shaped-link.ts'
import type { Paces } from './plan.ts'

export interface PiceClusterOptions {
  /** The LLM, and the small models of every device. Absent: they are on servers that the options name. */
  readonly bundle?: string
  readonly smallModels?: readonly string[]
  readonly devices: number
  /** Of the bridge's steps and of the devices'; absent: as fast as they compute. */
  readonly paces?: Paces
  /** Options of `brim bridge run`. */
  readonly args?: readonly string[]
  /** Options of `brim agent run`. */
  readonly deviceArgs?: readonly string[]
  /** Rate of each device's link in each direction; absent: the loopback interface's. */
  readonly bytesPerS?: number | undefined
  readonly io: Io
}

export type PiceCluster = Awaited<ReturnType<typeof startPiceCluster>>

/** Delay of a shaped link, in ms, each way. */
export const linkDelayMs = 10

/** A bridge that stands for the cloud, and devices with small models, each a process. */
export function startPiceCluster(options: PiceClusterOptions) {
  const { bundle, smallModels = [], devices, paces, args = [], deviceArgs = [], bytesPerS, io } = options
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const bridge = await cluster.startBridge({ pace: paces?.cloud, args, program: laboratoryProgram })
    const urls = await Promise.all(
      Array.from({ length: devices }, (_, i) => mqttUrlOf(cluster, bridge, bytesPerS, seededRandom(i))),
    )
    const agents = await Promise.all(
      urls.map((url, i) =>
        cluster.startAgent({
          id: `device-${i + 1}`,
          bridges: [url],
          pace: paces?.device,
          args: [...smallModels.flatMap((model) => ['--slm', model]), ...deviceArgs],
        }),
      ),
    )
    const { httpUrl } = bridge.ready
    const client = new BridgeClient({ url: httpUrl }, io.signal)
    const deviceIds = agents.map((_, i) => `device-${i + 1}`)
    await untilReady(client, deviceIds.length, io.signal)
    return {
      httpUrl,
      mqttUrl: bridge.ready.mqttUrl,
      client,
      deviceIds,
      /** SIGSTOP, and SIGCONT. */
      suspend: (device: string) => agents[deviceIds.indexOf(device)]!.suspend(),
      resume: (device: string) => agents[deviceIds.indexOf(device)]!.resume(),
      /** CPU time so far, in seconds; undefined where the system does not report it. */
      cpuS: {
        bridgeCore: () => cpuSeconds([bridge.pid]),
        devicesCore: () => cpuSeconds(agents.map(({ pid }) => pid)),
      },
    }
  })
}

/** An agent is ready before its bridge has heard of it. */
async function untilReady(client: BridgeClient, count: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { devices } = (await client.call(deviceOperations.list, {})).value
    if (devices.filter(({ state }) => state === 'ready').length === count) return
    await systemClock.sleep(100, signal)
  }
}

/** The bridge's URL as a device reaches it: through its link. */
async function mqttUrlOf(
  cluster: Cluster,
  { ready: { mqttUrl } }: BridgeNode,
  bytesPerS: number | undefined,
  random: ReturnType<typeof seededRandom>,
): Promise<string> {
  if (bytesPerS === undefined) return mqttUrl
  const direction = { rates: { intervalMs: 1_000, bytesPerS: [bytesPerS] }, delayMs: linkDelayMs, jitterMs: 0 }
  const shape = { up: direction, down: direction }
  const link = await cluster.attach(startShapedLink({ target: portOf(mqttUrl), shape, random }))
  return `mqtt://127.0.0.1:${link.port}`
}
