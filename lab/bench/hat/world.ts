import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../../../core/base/io.ts'
import { seededRandom } from '../../../core/base/random.ts'
import type { Cores } from '../../cluster/cores.ts'
import { type BrimProcess, startBrim } from '../../cluster/processes.ts'
import { type LinkShape, type ShapedLink, startShapedLink } from '../../cluster/shaped-link.ts'
import { type StrategyName, strategies } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** What the bridge tells of a step at /v1/steps. */
export interface Step {
  readonly index: number
  readonly startMs: number
  readonly items: number
  readonly tokens: number
  readonly computeMs: number
  readonly predictedMs: number | null
}

export interface Device {
  readonly apiUrl: string
  readonly link: ShapedLink
  readonly shape: LinkShape
}

/** A bridge and its devices, each a process, with a shaped link between any device and the bridge. */
export interface HatWorld extends AsyncDisposable {
  readonly strategy: StrategyName
  readonly devices: readonly Device[]
  /** Of the bridge itself, past all links. */
  readonly dataUrl: string
  readonly bridgePid: number
  readonly agentPids: readonly number[]
  /** The last steps of the bridge, oldest first. */
  steps(): Promise<Step[]>
}

export interface WorldOptions {
  readonly bundle: string
  readonly strategy: StrategyName
  readonly workload: WorkloadName
  /** One per device. */
  readonly shapes: readonly LinkShape[]
  readonly seed: number
  readonly cores: Cores | undefined
  readonly io: Io
}

export async function startWorld(options: WorldOptions): Promise<HatWorld> {
  const { bundle, strategy, workload, shapes, seed, cores, io } = options
  const folder = await mkdtemp(join(tmpdir(), 'brim-bench-hat-'))
  const processes: BrimProcess[] = []
  const links: ShapedLink[] = []
  async function stop(): Promise<void> {
    await Promise.all(processes.map((process) => process.stop()))
    await Promise.all(links.map((link) => link.close()))
    await rm(folder, { recursive: true, force: true })
  }
  async function start(name: string, core: number | undefined, args: readonly string[]): Promise<BrimProcess> {
    const common = ['--bundle', bundle, '--threads', '1', '--state-dir', join(folder, name)]
    const process = await startBrim([...args, ...common], { env: io.env, signal: io.signal, core })
    processes.push(process)
    return process
  }
  async function startDevice(shape: LinkShape, at: number, bridge: BrimProcess): Promise<Device> {
    const dataUrl = new URL(String(bridge.ready.dataUrl))
    const link = await startShapedLink({ target: Number(dataUrl.port), shape, random: seededRandom(seed * 1_000 + at) })
    links.push(link)
    dataUrl.port = String(link.port)
    const id = `device-${at + 1}`
    const where = ['--bridge', String(bridge.ready.mqttUrl), '--data-url', dataUrl.href, '--api-port', '0']
    const { agent } = strategies[strategy]
    const { ready } = await start(id, cores?.others, ['agent', 'run', '--id', id, ...where, ...agent])
    return { apiUrl: String(ready.apiUrl), link, shape }
  }
  try {
    const { bridge: packing } = strategies[strategy]
    const ports = ['--mqtt-port', '0', '--http-port', '0']
    const bridge = await start('bridge', cores?.bridge, ['bridge', 'run', ...ports, ...packing(workload)])
    const started = await Promise.allSettled(shapes.map((shape, at) => startDevice(shape, at, bridge)))
    const devices = started.map((result) => {
      if (result.status === 'rejected') throw result.reason
      return result.value
    })
    return {
      strategy,
      devices,
      dataUrl: String(bridge.ready.dataUrl),
      bridgePid: bridge.pid,
      agentPids: processes.filter((process) => process !== bridge).map(({ pid }) => pid),
      async steps() {
        const response = await fetch(`${bridge.ready.httpUrl}/v1/steps`, { signal: io.signal })
        return ((await response.json()) as { steps: Step[] }).steps
      },
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
