import { join } from 'node:path'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { Cluster } from '../../cluster/cluster.ts'
import type { Cores } from '../../cluster/cores.ts'
import { laboratoryProgram as program } from '../../cluster/processes.ts'
import { type LinkShape, startShapedLink } from '../../cluster/shaped-link.ts'
import { type StrategyName, strategies } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

interface HatClusterOptions {
  readonly bundle: string
  readonly strategy: StrategyName
  readonly workload: WorkloadName
  /** One per device. */
  readonly shapes: readonly LinkShape[]
  readonly seed: number
  readonly cores: Cores | undefined
  readonly io: Io
  /** Where bridge and devices record their machines; absent: nowhere. See `recordingOf`. */
  readonly recordings?: string | undefined
}

/** The recording of the bridge, or of a device's agent. */
export const recordingOf = (folder: string, strategy: StrategyName, of: string) => join(folder, `${strategy}-${of}.jsonl`)

export type HatCluster = Awaited<ReturnType<typeof startHatCluster>>

/** A bridge and its devices, each a process, with a shaped link between each device and the bridge. */
export function startHatCluster({ bundle, strategy, workload, shapes, seed, cores, io, recordings }: HatClusterOptions) {
  const recordOf = (of: string) => (recordings === undefined ? [] : ['--record', recordingOf(recordings, strategy, of)])
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const args = [...strategies[strategy].bridge(workload), ...recordOf('bridge')]
    const bridge = await cluster.startBridge({ args, core: cores?.bridge, program })
    const { mqttUrl, httpUrl, dataUrl } = bridge.ready
    const startDevice = async (shape: LinkShape, at: number) => {
      const url = new URL(dataUrl)
      const random = seededRandom(seed * 1_000 + at)
      const link = await cluster.attach(startShapedLink({ target: Number(url.port), shape, random }))
      url.port = String(link.port)
      const id = `device-${at + 1}`
      const args = ['--data-url', url.href, ...strategies[strategy].agent, ...recordOf(id)]
      const agent = await cluster.startAgent({ id, bridges: [mqttUrl], args, core: cores?.others, program })
      return { apiUrl: agent.ready.apiUrl, pid: agent.pid, link, shape }
    }
    return {
      strategy,
      devices: await Promise.all(shapes.map(startDevice)),
      /** The bridge's own data URL, which no link shapes. */
      dataUrl,
      httpUrl,
      bridgePid: bridge.pid,
    }
  })
}
