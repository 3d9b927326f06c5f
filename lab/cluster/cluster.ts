import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { type BrimProcess, laboratoryProgram, startBrim } from './processes.ts'
import { portOf } from './relay.ts'

interface ClusterOptions {
  /** Folder of the bundle that every bridge and agent serves; undefined: their options name servers. */
  readonly bundle: string | undefined
  /** Parent of the state folders; the system's temporary folder where absent. */
  readonly folder?: string
  /** The environment of the processes, for example Io.env. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Ends starts that are under way; it does not end what runs. */
  readonly signal?: AbortSignal
}

/** Duration of a step of an emulated machine, in ms: a constant, and a part for each row. */
export interface StepPace {
  readonly stepMs: number
  readonly rowMs: number
}

interface NodeOptions {
  /** Further options of `brim bridge run` or `brim agent run`. */
  readonly args?: readonly string[]
  /** Steps as long as another machine's; absent: as this one computes them. */
  readonly pace?: StepPace | undefined
  /** The only core that the process may run on; see cores.ts. */
  readonly core?: number | undefined
  /** `dist/brim.js` of another installation, or `laboratoryProgram`; absent: that of this one. */
  readonly program?: string | undefined
}

interface BridgeOptions extends NodeOptions {
  /** `bridge` where absent. */
  readonly id?: string
  /** URL of an external broker, in place of the embedded one. */
  readonly broker?: string | undefined
  /** 0 or absent: a free port. */
  readonly mqttPort?: number
  readonly httpPort?: number
}

interface AgentOptions extends NodeOptions {
  readonly id: string
  /** MQTT URLs of the bridges that it may use. */
  readonly bridges: readonly string[]
  /** 0 or absent: a free port. */
  readonly apiPort?: number
}

const BridgeReady = z.object({ mqttUrl: z.string(), httpUrl: z.string(), dataUrl: z.string(), pin: z.string().optional() })
const AgentReady = z.object({ apiUrl: z.string() })

export type BridgeNode = ClusterNode<z.infer<typeof BridgeReady>>
export type AgentNode = ClusterNode<z.infer<typeof AgentReady>>

/**
 * Bridges and agents on this machine, each a process with one thread per operator and a separate state folder.
 * Disposing stops the processes, then disposes what was attached, then removes the state folders.
 */
export class Cluster implements AsyncDisposable {
  readonly #options: ClusterOptions
  readonly #folder: string
  readonly #closing = new AbortController()
  readonly #launched = new Set<Promise<BrimProcess>>()
  readonly #attached: AsyncDisposable[] = []

  static async create(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(options, await mkdtemp(join(options.folder ?? tmpdir(), 'brim-cluster-')))
  }

  /** What `assemble` makes of a new cluster; disposing it disposes the cluster. */
  static async assembled<Parts extends object>(
    options: ClusterOptions,
    assemble: (cluster: Cluster) => Promise<Parts>,
  ): Promise<Parts & AsyncDisposable> {
    const cluster = await Cluster.create(options)
    const dispose = () => cluster[Symbol.asyncDispose]()
    try {
      return Object.assign(await assemble(cluster), { [Symbol.asyncDispose]: dispose })
    } catch (error) {
      await dispose()
      throw error
    }
  }

  private constructor(options: ClusterOptions, folder: string) {
    this.#options = options
    this.#folder = folder
  }

  /** State folder of a bridge or agent. */
  stateDir(id: string): string {
    return join(this.#folder, id)
  }

  /** Starts a bridge; a restart uses the ports of the first start. */
  async startBridge(options: BridgeOptions = {}): Promise<BridgeNode> {
    const { id = 'bridge', broker, mqttPort = 0, httpPort = 0, args = [], ...process } = options
    const launch: Launch<z.infer<typeof BridgeReady>> = (before) => {
      const mqtt = before ? portOf(before.mqttUrl) : mqttPort
      const http = before ? portOf(before.httpUrl) : httpPort
      const control = broker === undefined ? ['--mqtt-port', String(mqtt)] : ['--broker', broker]
      return this.#launch(id, ['bridge', 'run', '--id', id, ...control, '--http-port', String(http), ...args], process)
    }
    return new ClusterNode(BridgeReady, launch, await launch())
  }

  /** Starts an agent; a restart may use another port. */
  async startAgent({ id, bridges, apiPort = 0, args = [], ...process }: AgentOptions): Promise<AgentNode> {
    const urls = bridges.flatMap((url) => ['--bridge', url])
    const command = ['agent', 'run', '--id', id, ...urls, '--api-port', String(apiPort), ...args]
    const launch = () => this.#launch(id, command, process)
    return new ClusterNode(AgentReady, launch, await launch())
  }

  /** Gives the cluster a relay, link or broker to dispose once its processes have ended. */
  async attach<T extends AsyncDisposable>(starting: Promise<T>): Promise<T> {
    const resource = await starting
    this.#attached.push(resource)
    return resource
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    const processes = await Promise.allSettled(this.#launched)
    await Promise.all(processes.map((result) => (result.status === 'fulfilled' ? result.value.stop() : undefined)))
    await Promise.all(this.#attached.map((resource) => resource[Symbol.asyncDispose]()))
    await rm(this.#folder, { recursive: true, force: true })
  }

  #launch(id: string, args: readonly string[], { core, pace, program }: NodeOptions): Promise<BrimProcess> {
    const { bundle, env, signal } = this.#options
    const signals = signal ? [signal, this.#closing.signal] : [this.#closing.signal]
    const common = [...(bundle === undefined ? [] : ['--bundle', bundle]), '--threads', '1', '--state-dir', this.stateDir(id)]
    const paced = pace ? ['--step-ms', String(pace.stepMs), '--row-ms', String(pace.rowMs)] : []
    const process = startBrim([...args, ...paced, ...common], {
      env,
      signal: AbortSignal.any(signals),
      core,
      program: pace ? laboratoryProgram : program,
    })
    this.#launched.add(process)
    return process
  }
}

/** @param before the ready line of the process before; absent at the first start */
type Launch<Ready> = (before?: Ready) => Promise<BrimProcess>

/** A bridge or an agent that can be killed and started again with its state. */
class ClusterNode<Ready> {
  readonly #schema: z.ZodType<Ready>
  readonly #launch: Launch<Ready>
  #process: BrimProcess

  constructor(schema: z.ZodType<Ready>, launch: Launch<Ready>, process: BrimProcess) {
    this.#schema = schema
    this.#launch = launch
    this.#process = process
  }

  /** URLs of the process, as it printed them when it was ready. */
  get ready(): Ready {
    return this.#schema.parse(this.#process.ready)
  }

  get pid(): number {
    return this.#process.pid
  }

  /** SIGKILL; resolves when the process has ended. */
  kill(): Promise<void> {
    return this.#process.kill()
  }

  /** SIGKILL, then a new process with the same state; resolves when it is ready. */
  async restart(): Promise<void> {
    await this.kill()
    this.#process = await this.#launch(this.ready)
  }

  /** SIGSTOP: the process hangs with its connections open. */
  suspend(): void {
    process.kill(this.pid, 'SIGSTOP')
  }

  /** SIGCONT, after `suspend`. */
  resume(): void {
    process.kill(this.pid, 'SIGCONT')
  }
}
