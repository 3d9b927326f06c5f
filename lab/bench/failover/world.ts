import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../core/base/clock.ts'
import { BrimError } from '../../../core/base/errors.ts'
import type { Io } from '../../../core/base/io.ts'
import { readSse } from '../../../core/openai/sse-reader.ts'
import { type BrimProcess, startBrim } from '../../cluster/processes.ts'
import { portOf, type Relay, type RelayedConnection, startRelay } from '../../cluster/relay.ts'
import { webSocketPayloads } from '../../cluster/web-socket-payloads.ts'
import type { Question } from './plan.ts'

/** The device whose answers meet faults; it knows both bridges. */
const device = 'device'

export interface Answer {
  readonly tokenIds: readonly number[]
  /** As it was streamed. */
  readonly text: string
  readonly failovers: number
  /** When each piece of text came, by the clock of this process. */
  readonly atMs: readonly number[]
}

/** A bridge process, and the relay that devices find it behind. */
export interface Site {
  readonly name: string
  /** Open connections of the device whose answers meet faults. */
  connections(): RelayedConnection[]
  /** SIGKILL, then the same bridge again: same ports, same store. Resolves when it serves. */
  restart(): Promise<void>
  /** Does nothing any more, and closes nothing. */
  hang(): void
  /** Goes on after `hang`. */
  resume(): void
}

/** Two bridges, a device that knows both, and on either bridge a neighbour that knows no other: all processes. */
export interface FailoverWorld extends AsyncDisposable {
  readonly sites: readonly Site[]
  /** @throws BrimError of the agent's own code */
  ask(question: Question, onText?: (soFar: string) => void): Promise<Answer>
  /** The neighbour at each site, in their order. */
  askNeighbours(question: Question): Promise<Answer>[]
}

export interface FailoverWorldOptions {
  /** Folder of a split bundle. */
  readonly bundle: string
  /** Longest answer. */
  readonly maxTokens: number
  readonly io: Io
}

export async function startFailoverWorld({ bundle, maxTokens, io }: FailoverWorldOptions): Promise<FailoverWorld> {
  const state = await mkdtemp(join(tmpdir(), 'brim-failover-'))
  const running = new Set<BrimProcess>()
  const relays: Relay[] = []
  const close = async () => {
    await Promise.all([...running].map((process) => process.stop()))
    await Promise.all(relays.map((relay) => relay[Symbol.asyncDispose]()))
    await rm(state, { recursive: true, force: true })
  }
  const start = async (...args: string[]): Promise<BrimProcess> => {
    const process = await startBrim([...args, '--bundle', bundle, '--threads', '1'], { env: io.env, signal: io.signal })
    running.add(process)
    return process
  }
  const startSite = async (name: string) => {
    const relay = await startRelay(0)
    relays.push(relay)
    const announced = `ws://127.0.0.1:${relay.port}/v1/data`
    const startBridge = (mqttPort: number, httpPort: number) =>
      start(
        ...['bridge', 'run', '--id', name, '--state-dir', join(state, name), '--data-url', announced],
        ...['--mqtt-port', String(mqttPort), '--http-port', String(httpPort)],
      )
    let bridge = await startBridge(0, 0)
    const mqttUrl = String(bridge.ready.mqttUrl)
    relay.target = portOf(String(bridge.ready.httpUrl))
    const site: Site = {
      name,
      connections: () => relay.connections.filter((connection) => connection.isOpen && deviceOf(connection) === device),
      async restart() {
        process.kill(bridge.pid, 'SIGKILL')
        running.delete(bridge)
        await bridge.stop()
        bridge = await startBridge(portOf(mqttUrl), relay.target)
      },
      hang() {
        process.kill(bridge.pid, 'SIGSTOP')
      },
      resume() {
        process.kill(bridge.pid, 'SIGCONT')
      },
    }
    return { site, mqttUrl }
  }
  const startAgent = async (id: string, ...bridges: string[]): Promise<string> => {
    const where = bridges.flatMap((url) => ['--bridge', url])
    const agent = await start('agent', 'run', '--id', id, '--state-dir', join(state, id), '--api-port', '0', ...where)
    return String(agent.ready.apiUrl)
  }
  try {
    const started = await Promise.all(['bridge-a', 'bridge-b'].map(startSite))
    const urls = started.map(({ mqttUrl }) => mqttUrl)
    const [main, ...neighbours] = await Promise.all([
      startAgent(device, ...urls),
      ...started.map(({ site, mqttUrl }) => startAgent(`neighbour-of-${site.name}`, mqttUrl)),
    ])
    let requests = 0
    const askAt = (apiUrl: string, question: Question, onText: (soFar: string) => void = () => {}) => {
      requests += 1
      return ask(apiUrl, { ...question, maxTokens, user: `run-${requests}` }, onText, io.signal)
    }
    return {
      sites: started.map(({ site }) => site),
      ask: (question, onText) => askAt(main!, question, onText),
      askNeighbours: (question) => neighbours.map((apiUrl) => askAt(apiUrl, question)),
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** By the hello that opens its WebSocket; undefined before that. */
function deviceOf({ up }: RelayedConnection): string | undefined {
  const beginning = Buffer.concat(up.slice(0, 3)).subarray(0, 2_048)
  if (!beginning.includes('\r\n\r\n')) return undefined
  return /"device":"([^"]+)"/.exec(webSocketPayloads(beginning).toString('latin1'))?.[1]
}

interface Chunk {
  readonly choices?: readonly { readonly text: string }[]
  readonly brim?: { readonly tokenIds: readonly number[]; readonly failovers: number }
  readonly error?: { readonly code: string; readonly message: string }
}

/** Every request is another user's: no answer begins with what the bridge kept of an earlier one. */
async function ask(
  apiUrl: string,
  { prompt, temperature, seed, maxTokens, user }: Question & { maxTokens: number; user: string },
  onText: (soFar: string) => void,
  signal: AbortSignal,
): Promise<Answer> {
  const response = await fetch(`${apiUrl}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, temperature, seed, user, max_tokens: maxTokens, stream: true, brim: { token_ids: true } }),
    signal,
  })
  if (!response.ok || !response.body) throw failed(((await response.json()) as Chunk).error)
  const atMs: number[] = []
  let text = ''
  let report: Chunk['brim']
  for await (const data of readSse(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error) throw failed(chunk.error)
    report = chunk.brim ?? report
    const piece = chunk.choices?.[0]?.text ?? ''
    if (piece === '') continue
    text += piece
    atMs.push(systemClock.nowMs())
    onText(text)
  }
  if (!report) throw failed(undefined)
  return { tokenIds: report.tokenIds, text, failovers: report.failovers, atMs }
}

const failed = (error: Chunk['error']) =>
  new BrimError('LINK_LOST', error ? `the agent: ${error.message} (${error.code})` : 'the agent ended its answer without figures')
