import type { LoggedStep } from '../../../cloud-bridge/serving/step-log.ts'
import type { Io } from '../../../core/base/io.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { Cluster } from '../../cluster/cluster.ts'
import type { Cores } from '../../cluster/cores.ts'
import { type LinkShape, type ShapedLink, startShapedLink } from '../../cluster/shaped-link.ts'
import { type StrategyName, strategies } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

export interface Device {
  readonly apiUrl: string
  readonly link: ShapedLink
  readonly shape: LinkShape
}

/** A bridge and its devices, each a process, with a shaped link between each device and the bridge. */
export interface HatCluster extends AsyncDisposable {
  readonly strategy: StrategyName
  readonly devices: readonly Device[]
  /** The bridge's own data URL, which no link shapes. */
  readonly dataUrl: string
  readonly bridgePid: number
  readonly agentPids: readonly number[]
  /** The last steps of the bridge, oldest first. */
  steps(): Promise<LoggedStep[]>
}

export interface HatClusterOptions {
  readonly bundle: string
  readonly strategy: StrategyName
  readonly workload: WorkloadName
  /** One per device. */
  readonly shapes: readonly LinkShape[]
  readonly seed: number
  readonly cores: Cores | undefined
  readonly io: Io
}

export async function startHatCluster(options: HatClusterOptions): Promise<HatCluster> {
  const { bundle, strategy, workload, shapes, seed, cores, io } = options
  const cluster = await Cluster.create({ bundle, env: io.env, signal: io.signal })
  try {
    const bridge = await cluster.startBridge({ args: strategies[strategy].bridge(workload), core: cores?.bridge })
    const { mqttUrl, httpUrl, dataUrl } = bridge.ready
    const startDevice = async (shape: LinkShape, at: number) => {
      const url = new URL(dataUrl)
      const random = seededRandom(seed * 1_000 + at)
      const link = await cluster.attach(startShapedLink({ target: Number(url.port), shape, random }))
      url.port = String(link.port)
      const args = ['--data-url', url.href, ...strategies[strategy].agent]
      const agent = await cluster.startAgent({ id: `device-${at + 1}`, bridges: [mqttUrl], args, core: cores?.others })
      return { apiUrl: agent.ready.apiUrl, pid: agent.pid, link, shape }
    }
    const devices = await Promise.all(shapes.map(startDevice))
    return {
      strategy,
      devices,
      dataUrl,
      bridgePid: bridge.pid,
      agentPids: devices.map(({ pid }) => pid),
      async steps() {
        const response = await fetch(`${httpUrl}/v1/steps`, { signal: io.signal })
        return ((await response.json()) as { steps: LoggedStep[] }).steps
      },
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    }
  } catch (error) {
    await cluster[Symbol.asyncDispose]()
    throw error
  }
}
