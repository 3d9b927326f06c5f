import type { IClientOptions, MqttClient } from 'mqtt'
import { type BrokerLogin, readAdmin } from '../../cloud-bridge/broker/broker-secrets.ts'
import type { ControlBroker } from '../../cloud-bridge/broker/control-broker.ts'
import { driveMosquitto } from '../../cloud-bridge/broker/driven-mosquitto.ts'
import { driveNats } from '../../cloud-bridge/broker/driven-nats.ts'
import { startEmbeddedBroker } from '../../cloud-bridge/broker/embedded-broker.ts'
import type { NatsAdmin } from '../../cloud-bridge/broker/nats-admin.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { startMosquitto } from '../../lab/cluster/mosquitto.ts'
import { portOf } from '../../lab/cluster/relay.ts'
import { mosquittoMissing, mqttClient, natsMissing } from './broker.ts'
import { startNats } from './nats.ts'
import { silentLogger } from './silent-logger.ts'

const giveUpMs = 30_000
const again = 100

/** A broker that admits only clients that its bridge has admitted, by the means of each kind. */
export interface ContractBroker extends AsyncDisposable {
  /** MQTT URLs of its nodes. */
  readonly nodes: readonly string[]
  readonly control: ControlBroker
  /** A login of the device from now on. */
  admit(device: string): Promise<MqttLogin>
  /** The device's grant ends. */
  revoke(device: string): void
  /** SIGKILL of every node, then new processes with their files. The bridge gets no notice. */
  restart(): Promise<void>
  killNode(at: number): Promise<void>
  startNode(at: number): Promise<void>
}

export interface ContractBrokerKind {
  readonly name: string
  readonly missing: boolean
  readonly start: () => Promise<ContractBroker>
  /** Whether retained messages outlive all processes. */
  readonly keeps: boolean
  /** Whether it refuses larger messages than a bridge's own broker does. */
  readonly limitsSize: boolean
}

const common = { fleet: 'default', bridge: 'bridge-1', lastState: () => undefined, clock: systemClock, logger: silentLogger() }
const oneNode = async () => {
  throw new Error('it has one node')
}

async function embedded(): Promise<ContractBroker> {
  const tokens = new Map<string, string>([['own', 'bridge-bridge-1']])
  const gate = { authRequired: true, subjectOf: (token: string) => tokens.get(token) }
  const start = (port: number) =>
    startEmbeddedBroker({
      ...common,
      host: '127.0.0.1',
      port,
      gate,
      limits: BridgeLimits.parse({ mqttConnectsPerMinute: 1_000 }),
    })
  let broker = await start(0)
  const { url } = broker
  const control = () => Object.assign(broker, { login: { password: 'own' } })
  return {
    nodes: [url],
    get control() {
      return control()
    },
    async admit(device) {
      tokens.set(`token of ${device}`, `device-${device}`)
      return { password: `token of ${device}` }
    },
    revoke(device) {
      tokens.delete(`token of ${device}`)
      broker.disconnect(device)
    },
    async restart() {
      await broker.close()
      broker = await start(portOf(url))
    },
    killNode: oneNode,
    startNode: oneNode,
    [Symbol.asyncDispose]: () => broker.close(),
  }
}

async function mosquitto(): Promise<ContractBroker> {
  const server = await startMosquitto({ guarded: true })
  const control = await driveMosquitto({ ...common, url: server.url, admin: readAdmin(server.adminFile!) as BrokerLogin })
  return {
    nodes: [server.url],
    control,
    admit: async (device) => (await control.admit(device))!,
    revoke: (device) => control.disconnect(device),
    async restart() {
      await server.restart()
      // Until the bridge has noticed that its broker is back, it is refused whom it lets in.
      const isAdmitted = async () => joinBroker(server.url, 'device-first', (await control.admit('first'))!)
      for (let client: MqttClient | undefined; !client; ) {
        await systemClock.sleep(again)
        client = await isAdmitted().catch(() => undefined)
        await client?.endAsync(true)
      }
    },
    killNode: oneNode,
    startNode: oneNode,
    async [Symbol.asyncDispose]() {
      await control.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

const nats = (count: 1 | 3) => async (): Promise<ContractBroker> => {
  const cluster = await startNats(count)
  const control = await driveNats({ ...common, url: cluster.url, admin: readAdmin(cluster.adminFile) as NatsAdmin })
  return {
    nodes: cluster.nodes.map(({ url }) => url),
    control,
    admit: async (device) => (await control.admit(device))!,
    revoke: (device) => control.disconnect(device),
    async restart() {
      await Promise.all(cluster.nodes.map((node) => node.kill()))
      await Promise.all(cluster.nodes.map((node) => node.start()))
    },
    killNode: (at) => cluster.nodes[at]!.kill(),
    startNode: (at) => cluster.nodes[at]!.start(),
    async [Symbol.asyncDispose]() {
      await control.close()
      await cluster[Symbol.asyncDispose]()
    },
  }
}

export const contractBrokers: readonly ContractBrokerKind[] = [
  { name: 'the embedded broker', missing: false, start: embedded, keeps: false, limitsSize: true },
  { name: 'mosquitto', missing: mosquittoMissing(), start: mosquitto, keeps: false, limitsSize: true },
  { name: 'NATS', missing: natsMissing(), start: nats(1), keeps: true, limitsSize: false },
  { name: 'a cluster of three NATS', missing: natsMissing(), start: nats(3), keeps: true, limitsSize: false },
]

/** A client with this login at a node; as agents do, it tries again while that cannot be reached. @throws Error where it is refused */
export async function joinBroker(
  node: string,
  username: string,
  { password, clientId = username }: MqttLogin,
  options: IClientOptions = {},
): Promise<MqttClient> {
  for (const startedMs = systemClock.nowMs(); ; ) {
    try {
      const client = await mqttClient(node, clientId, { username, password, ...options })
      // Fails the callbacks of messages in flight.
      client.once('close', () => client.end(true))
      return client
    } catch (error) {
      if (/not authorized/i.test(String(error)) || systemClock.nowMs() - startedMs > giveUpMs) throw error
      await systemClock.sleep(again)
    }
  }
}
