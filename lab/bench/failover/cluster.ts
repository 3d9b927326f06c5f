import type { Io } from '../../../core/kit/base/io.ts'
import { askAgent } from '../../cluster/ask-agent.ts'
import { type BridgeNode, Cluster } from '../../cluster/cluster.ts'
import { portOf, type RelayedConnection, startRelay } from '../../cluster/relay.ts'
import { webSocketPayloads } from '../../cluster/web-socket-payloads.ts'
import type { Question } from './plan.ts'

/** The device whose answers meet faults; it knows both bridges. */
const deviceId = 'device'

export interface FailoverAnswer {
  readonly tokenIds: readonly number[]
  /** As it was streamed. */
  readonly text: string
  readonly failovers: number
  /** When each piece of text arrived, in ms on the system clock. */
  readonly arrivedMs: readonly number[]
}

/** A bridge behind a relay. */
export interface Site {
  readonly name: string
  readonly bridge: BridgeNode
  /** Open connections of the device whose answers meet faults. */
  connections(): RelayedConnection[]
}

interface FailoverClusterOptions {
  /** Folder of a split bundle. */
  readonly bundle: string
  readonly maxTokens: number
  readonly io: Io
}

export type FailoverCluster = Awaited<ReturnType<typeof startFailoverCluster>>

/** Two bridges, a device that knows both, and one neighbour per bridge that knows only that bridge. */
export function startFailoverCluster({ bundle, maxTokens, io }: FailoverClusterOptions) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const startSite = async (name: string): Promise<Site> => {
      const relay = await cluster.attach(startRelay(0))
      const announced = `ws://127.0.0.1:${relay.port}/v1/data`
      const bridge = await cluster.startBridge({ id: name, args: ['--data-url', announced] })
      relay.target = portOf(bridge.ready.httpUrl)
      const ofDevice = (connection: RelayedConnection) => connection.isOpen && deviceOf(connection) === deviceId
      return { name, bridge, connections: () => relay.connections.filter(ofDevice) }
    }
    const startAgent = async (id: string, sites: readonly Site[]): Promise<string> => {
      const agent = await cluster.startAgent({ id, bridges: sites.map(({ bridge }) => bridge.ready.mqttUrl) })
      return agent.ready.apiUrl
    }
    const sites = await Promise.all(['bridge-a', 'bridge-b'].map(startSite))
    const [device, ...neighbours] = await Promise.all([
      startAgent(deviceId, sites),
      ...sites.map((site) => startAgent(`neighbour-of-${site.name}`, [site])),
    ])
    let requests = 0
    const askAt = async (
      apiUrl: string,
      { prompt, temperature, seed }: Question,
      onText: (textSoFar: string) => void = () => {},
    ): Promise<FailoverAnswer> => {
      requests += 1
      // A new user each time: no request may start from the bridge's cached prefix of an earlier one.
      const body = { prompt, temperature, seed, max_tokens: maxTokens, user: `run-${requests}` }
      let textSoFar = ''
      const { text, report, arrivedMs } = await askAgent(apiUrl, body, io.signal, (piece) => {
        textSoFar += piece
        onText(textSoFar)
      })
      return { tokenIds: report.tokenIds, text, failovers: report.failovers, arrivedMs }
    }
    return {
      sites,
      /** @throws BrimError with the agent's own code */
      ask: (question: Question, onText?: (textSoFar: string) => void) => askAt(device!, question, onText),
      /** Asks the neighbour at each site, in the order of the sites. */
      askNeighbours: (question: Question) => neighbours.map((apiUrl) => askAt(apiUrl, question)),
    }
  })
}

/** The device named in the hello that opens a WebSocket; undefined before the hello. */
function deviceOf({ up }: RelayedConnection): string | undefined {
  const beginning = Buffer.concat(up.slice(0, 3)).subarray(0, 2_048)
  if (!beginning.includes('\r\n\r\n')) return undefined
  return /"device":"([^"]+)"/.exec(webSocketPayloads(beginning).toString('latin1'))?.[1]
}
