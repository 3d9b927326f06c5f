import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { shownBroker } from '../../core/wire/protocol/mqtt-url.ts'
import { connectMqtt, type MqttConnection, type MqttConnectionOptions } from './mqtt-connection.ts'
import { NodeRing } from './node-ring.ts'
import type { LinkCredentials } from './ports.ts'

interface BrokerDialerOptions {
  /** mqtt://host:port, mqtts://host:port, or of a WebSocket; of several nodes, separated by commas */
  readonly url: string
  readonly device: string
  readonly credentials?: LinkCredentials | undefined
  readonly random: Random
  readonly logger: Logger
}

/** What a connection needs besides the broker; `will` is asked for once per attempt. */
interface Session extends Pick<MqttConnectionOptions, 'onMessage'> {
  will(): MqttConnectionOptions['will']
}

/** The ways from a device to its broker: the broker's nodes in turn, and the bridge's port for HTTP where none can be reached. */
export class BrokerDialer {
  readonly #options: BrokerDialerOptions
  readonly #nodes: NodeRing

  constructor(options: BrokerDialerOptions) {
    this.#options = options
    this.#nodes = new NodeRing(options.url, options.random)
  }

  /** @throws BrimError BROKER_UNREACHABLE, BRIDGE_UNREACHABLE and what the bridge refuses a login with */
  async connect(session: Session, signal: AbortSignal): Promise<MqttConnection> {
    const { url, credentials, logger } = this.#options
    const { webSocketBroker = url } = credentials ?? {}
    const login = await credentials?.mqttLogin(signal)
    const isWorthIt = (error: unknown) => !signal.aborted && isUnreachable(error)
    try {
      return await this.#nodes.connect((node) => this.#connectAt(node, login, session, signal), isWorthIt)
    } catch (error) {
      // The bridge, which has just given the password, may have closed its port for MQTT (--one-port).
      if (webSocketBroker === url || !isWorthIt(error)) throw error
      logger.debug({ url: shownBroker(webSocketBroker) }, 'no broker where the device enrolled, trying the port of HTTP')
      return this.#connectAt(webSocketBroker, login, session, signal).catch(() => {
        throw error
      })
    }
  }

  async #connectAt(url: string, login: MqttLogin | undefined, session: Session, signal: AbortSignal): Promise<MqttConnection> {
    const { device, credentials, logger } = this.#options
    const socket = await credentials?.dial(url, signal)
    signal.throwIfAborted()
    const { onMessage } = session
    return connectMqtt({ url, clientId: `device-${device}`, login, socket, will: session.will(), onMessage, logger }, signal)
  }
}

const isUnreachable = (error: unknown) =>
  error instanceof BrimError && ['BROKER_UNREACHABLE', 'BRIDGE_UNREACHABLE'].includes(error.code)
