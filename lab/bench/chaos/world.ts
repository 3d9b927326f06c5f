import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { BrimError } from '../../../core/base/errors.ts'
import type { Io } from '../../../core/base/io.ts'
import { startMosquitto } from '../../cluster/mosquitto.ts'
import { type BrimProcess, startBrim } from '../../cluster/processes.ts'
import { portOf, startRelay, through } from '../../cluster/relay.ts'

export interface ChaosOptions {
  /** Folder of a split bundle, and of a small whole one: devices generate with the small one. */
  readonly bundle: string
  readonly slm: string
  readonly agents: number
  /** In the bridge's process, or a mosquitto in one of its own. */
  readonly broker: ChaosBroker
  readonly io: Io
}

export const chaosBrokers = ['embedded', 'mosquitto'] as const
export type ChaosBroker = (typeof chaosBrokers)[number]

/** A job as the bridge tells it. */
export interface ToldJob {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly result: { readonly text: string } | null
}

/** A bridge, a broker and some devices, all processes, and MQTT to the devices through a relay. */
export interface ChaosWorld extends AsyncDisposable {
  /** SIGKILL, and started again with the same store. Resolves when it is ready. */
  killAgent(at: number): Promise<void>
  /** The bridge, and with it an embedded broker: SIGKILL, and started again with the same ports and store. */
  killBridge(): Promise<void>
  /** A broker in a process of its own: SIGKILL, and started again on its port. Resolves when it can be reached. */
  killBroker(): Promise<void>
  /** Every MQTT connection breaks, as when a broker between dies. */
  cutLinks(): void
  /** Asks until the bridge has acknowledged it, under one key. @returns the ids it was acknowledged with */
  submit(key: string, body: object): Promise<string>
  /** Undefined: the bridge knows no such job. */
  show(id: string): Promise<ToldJob | undefined>
  /** Types of a job's events. */
  history(id: string): Promise<readonly string[]>
  /** How often each job was done to its end, at each device. */
  finished(): Map<string, number>[]
}

/** So long may a bridge be away before that is a finding. */
const patienceMs = 60_000

export async function startChaosWorld({ bundle, slm, agents, broker, io }: ChaosOptions): Promise<ChaosWorld> {
  const mosquitto = broker === 'mosquitto' ? await startMosquitto({ guarded: false }) : undefined
  const state = await mkdtemp(join(tmpdir(), 'brim-chaos-'))
  const start = (...args: string[]) =>
    startBrim([...args, '--bundle', bundle, '--threads', '1'], { env: io.env, signal: io.signal })
  const startBridge = (mqttPort: number, httpPort: number) =>
    start(
      ...['bridge', 'run', '--state-dir', join(state, 'bridge')],
      ...(mosquitto ? ['--broker', mosquitto.url] : ['--mqtt-port', String(mqttPort)]),
      ...['--http-port', String(httpPort)],
    )
  let bridge = await startBridge(0, 0)
  const ports = [portOf(String(bridge.ready.mqttUrl)), portOf(String(bridge.ready.httpUrl))] as const
  const relay = await startRelay(ports[0])
  const mqttUrl = through(relay, String(bridge.ready.mqttUrl))
  const jobsUrl = `${bridge.ready.httpUrl}/v1/jobs`
  const stateOf = (at: number) => join(state, `device-${at}`)
  const startAgent = (at: number) =>
    start(
      ...['agent', 'run', '--id', `device-${at}`, '--bridge', mqttUrl, '--slm', slm],
      ...['--state-dir', stateOf(at), '--api-port', '0'],
    )
  const devices: BrimProcess[] = []
  const close = async () => {
    await Promise.all([...devices, bridge].map((process) => process.stop()))
    await relay[Symbol.asyncDispose]()
    await mosquitto?.[Symbol.asyncDispose]()
    await rm(state, { recursive: true, force: true })
  }
  try {
    for (let at = 0; at < agents; at++) devices.push(await startAgent(at))
  } catch (error) {
    await close()
    throw error
  }

  /** While the bridge is away it is asked again. */
  async function ask(path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
    for (const startedMs = performance.now(); ; await delay(20)) {
      io.signal.throwIfAborted()
      try {
        const response = await fetch(jobsUrl + path, init)
        return { status: response.status, body: await response.json() }
      } catch (cause) {
        if (performance.now() - startedMs > patienceMs)
          throw new BrimError('BRIDGE_UNREACHABLE', `the bridge did not answer for ${patienceMs / 1_000} s`, { cause })
      }
    }
  }

  return {
    async killAgent(at) {
      await kill(devices[at]!)
      devices[at] = await startAgent(at)
    },
    async killBridge() {
      await kill(bridge)
      bridge = await startBridge(...ports)
    },
    async killBroker() {
      if (!mosquitto) throw new Error('the broker is in the process of the bridge')
      await mosquitto.kill()
    },
    cutLinks: () => relay.cut(),
    async submit(key, body) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': key }
      const answer = await ask('', { method: 'POST', headers, body: JSON.stringify(body) })
      if (answer.status !== 202) throw new BrimError('REQUEST_INVALID', `the bridge answers ${answer.status} to a job`)
      return (answer.body as { id: string }).id
    },
    async show(id) {
      const { status, body } = await ask(`/${id}`)
      return status === 200 ? (body as ToldJob) : undefined
    },
    async history(id) {
      const { body } = await ask(`/${id}/events`)
      return (body as { events: { type: string }[] }).events.map(({ type }) => type)
    },
    finished: () => devices.map((_, at) => finishedIn(join(stateOf(at), 'jobs.sqlite'))),
    [Symbol.asyncDispose]: close,
  }
}

async function kill(process_: BrimProcess): Promise<void> {
  process.kill(process_.pid, 'SIGKILL')
  await process_.stop()
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
