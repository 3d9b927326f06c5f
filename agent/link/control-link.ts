import { type Clock, clockIsSet, nowIso } from '../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import { onOwnState } from '../../core/policy/link/retained-state.ts'
import { bridgeStateDelivery, deviceDelivery, leavesTo, pairsOf } from '../../core/wire/protocol/delivery.ts'
import { type BridgeState, DeviceState, MessageFault } from '../../core/wire/protocol/messages.ts'
import { shownBroker } from '../../core/wire/protocol/mqtt-url.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import {
  allBridgeStates,
  type DeviceTopic,
  deviceTopic,
  parseBridgeStateTopic,
  parseDeviceTopic,
} from '../../core/wire/protocol/topics.ts'
import { AnnouncedBridges } from './announced-bridges.ts'
import { BrokerDialer } from './broker-dialer.ts'
import type { MqttConnection, MqttMessage } from './mqtt-connection.ts'
import { OwnTopics } from './own-topics.ts'
import type { ControlService, LinkCredentials, Publisher } from './ports.ts'
import { Reconnector } from './reconnector.ts'

const goodbyeTimeoutMs = 2_000
/** A thousand devices a second publish their states for a bridge that has returned, but within this time. */
const maxSpreadMs = 10_000
/** Longest interval between two publications of the state while telemetry serves as the heartbeat. */
const stateEveryMs = 10 * 60_000

export interface ControlLinkOptions {
  /** mqtt://host:port, mqtts://host:port, or of a WebSocket; of several nodes, separated by commas */
  readonly url: string
  readonly fleet: string
  readonly device: string
  /** Persisted start counter: it tells this start's state from that of an earlier one. */
  readonly birth: number
  /** Tells this agent from another one under the same device id. */
  readonly instance?: string | undefined
  /** Version of this agent. */
  readonly agent: string
  /** Undefined: the device has no model yet. */
  readonly modelId: string | undefined
  /** What computes its models now. */
  readonly computing?: (() => DeviceState['computing']) | undefined
  /** Notices a connection loop that stands still. */
  readonly progress?: Progress | undefined
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Absent: the device has not enrolled there and connects without a password. */
  readonly credentials?: LinkCredentials | undefined
  /** Called whenever the state of a bridge on this broker changes. */
  readonly onBridges: (states: ReadonlyMap<string, BridgeState>) => void
  /** Bound of the longest wait between two attempts to connect, in seconds. */
  readonly reconnectMaxS: number
  /** Interval at which the retained state is republished, in seconds; 0: only when it changes. */
  readonly heartbeatS: number
}

/**
 * The device on the control plane of one broker: its retained state with a will, and the states of the bridges there. It
 * reconnects until `close`; an unreachable broker is not an error.
 */
export class ControlLink {
  readonly #options: ControlLinkOptions
  readonly #stateTopic: string
  readonly #bridges: AnnouncedBridges
  /** Outlives connections: the broker delivers no message before the device has subscribed. */
  readonly #own: OwnTopics
  #hasWarned = false
  readonly #reconnector: Reconnector
  readonly #closing = new AbortController()
  /** Resolves when the bridge has refused this device, because another one uses its id. */
  readonly idTaken: Promise<BrimError>
  #onIdTaken: (error: BrimError) => void = () => {}
  #services: readonly ControlService[] = []
  #modelId: string | undefined
  #connection: MqttConnection | undefined
  #connections = 0
  readonly #dialer: BrokerDialer
  /** Complete telemetry samples that bridges asked for. */
  #fullSamples = 0
  /** When the broker last acknowledged live telemetry, and the state. */
  #reportedMs = Number.NEGATIVE_INFINITY
  #stateMs = Number.NEGATIVE_INFINITY
  #rejection: BrimError | undefined
  /** Called when the broker delivers the device's own state to it while it closes. */
  #onGoodbyeDelivered = () => {}

  constructor(options: ControlLinkOptions) {
    this.#options = options
    this.#modelId = options.modelId
    this.#dialer = new BrokerDialer(options)
    this.#stateTopic = deviceTopic(options.fleet, options.device, 'state')
    this.#bridges = new AnnouncedBridges(options.logger, options.credentials?.bridge)
    this.#own = new OwnTopics(options.credentials?.bridge)
    this.idTaken = new Promise((resolve) => {
      this.#onIdTaken = resolve
    })
    this.#reconnector = new Reconnector({
      ...options,
      name: 'control plane',
      fleetSize: () => this.fleetSize,
      connect: (signal) => this.#connect(signal),
    })
  }

  /** Publishes the device's state with this model, and with what the services support now. */
  setModel(modelId: string | undefined): void {
    this.#modelId = modelId
    if (this.#connection) void this.#publishState(this.#connection)
  }

  /** Connects. The services are those of every connection from now on. */
  start(services: readonly ControlService[]): void {
    this.#services = services
    this.#reconnector.start()
  }

  get connected(): boolean {
    return this.#connection !== undefined
  }

  /** Connected, and a bridge has announced itself there. */
  get hasBridge(): boolean {
    return this.connected && !this.#closing.signal.aborted && this.#bridges.hasReceiver
  }

  /** Devices that reconnect together when a bridge returns; undefined: no bridge has announced it. */
  get fleetSize(): number | undefined {
    return this.#bridges.fleetSize
  }

  /**
   * The bridges that rebuild telemetry samples from deltas; another value means that they need a complete one. Undefined: no
   * bridge listens, or one of them needs complete samples always.
   */
  get deltaReceivers(): string | undefined {
    const bridges = this.hasBridge ? this.#bridges.deltaReceivers : undefined
    return bridges === undefined ? undefined : `${bridges} ${this.#connections} ${this.#fullSamples}`
  }

  /** Why the last attempt to connect was rejected; undefined if the last attempt was not rejected. */
  get rejection(): BrimError | undefined {
    return this.#rejection
  }

  /** Ends the present wait; resolves when the next attempt has succeeded or failed. */
  retryNow(): Promise<void> {
    return this.#reconnector.retryNow()
  }

  /** Publishes below the device's own topic, at least once. @returns whether the broker has acknowledged it */
  async publish(leaf: DeviceTopic, message: string): Promise<boolean> {
    const connection = this.#connection
    if (!connection || this.#closing.signal.aborted) return false
    return connection.publish({ topic: this.#topicOf(leaf), message, delivery: deviceDelivery[leaf] })
  }

  /** Publishes live telemetry, at least once. @returns whether the broker has acknowledged it */
  async report(message: string): Promise<boolean> {
    const isPublished = await this.publish('telemetry', message)
    if (isPublished) this.#reportedMs = this.#options.clock.nowMs()
    return isPublished
  }

  /** Publishes `disconnected` and disconnects, so that the broker does not publish the will. */
  async close(): Promise<void> {
    this.#closing.abort()
    const stopped = this.#reconnector.stop()
    const connection = this.#connection
    if (connection) {
      const isDelivered = await this.#publishGoodbye(connection)
      // A broker that does not respond would never confirm a clean end.
      await connection.end(!isDelivered)
    }
    await stopped
  }

  async #connect(signal: AbortSignal): Promise<MqttConnection> {
    const onMessage = (topic: string, payload: Buffer) => this.#onMessage(topic, payload)
    const will = () => {
      this.#connections += 1
      return this.#stateMessage('lost')
    }
    try {
      const connection = await this.#dialer.connect({ will, onMessage }, signal)
      this.#rejection = undefined
      this.#onConnected(connection)
      return connection
    } catch (error) {
      this.#rejection = error instanceof BrimError && rejections.includes(error.code) ? error : undefined
      if (this.#rejection?.code === 'DEVICE_ID_TAKEN') this.#onIdTaken(this.#rejection)
      throw error
    }
  }

  #onConnected(connection: MqttConnection): void {
    const { fleet, logger, url } = this.#options
    this.#connection = connection
    this.#bridges.clear()
    const leaves = new Set<DeviceTopic>(['state', 'faults', ...this.#services.flatMap(({ handlers }) => leavesOf(handlers))])
    void connection.subscribe({
      [allBridgeStates(fleet)]: bridgeStateDelivery,
      ...Object.fromEntries([...leaves].map((leaf) => [this.#topicOf(leaf), deviceDelivery[leaf]])),
    })
    for (const bridge of this.#own.bridges) void this.#resumeOwn(connection, bridge)
    void this.#publishState(connection)
    void this.#republish(connection)
    const publisher: Publisher = {
      publish: (leaf, message, bridge) => {
        const own = bridge !== undefined && this.#own.has(bridge) ? bridge : undefined
        return connection.publish({ topic: this.#topicOf(leaf, own), message, delivery: deviceDelivery[leaf] })
      },
      publishState: () => this.#publishState(connection),
    }
    for (const { onConnection } of this.#services) onConnection?.(publisher)
    void connection.closed.then(() => {
      this.#connection = undefined
      for (const { onConnection } of this.#services) onConnection?.(undefined)
    })
    logger.info({ url: shownBroker(url) }, 'control plane connected')
  }

  /** @returns whether the broker delivers what this bridge publishes on its own topics */
  #subscribeOwn(connection: MqttConnection, bridge: string): Promise<boolean> {
    const leaves = pairsOf(leavesTo('device'))
    return connection.subscribe(Object.fromEntries(leaves.map((leaf) => [this.#topicOf(leaf, bridge), deviceDelivery[leaf]])))
  }

  /** On a new connection to the broker, whose rules may have changed. */
  async #resumeOwn(connection: MqttConnection, bridge: string): Promise<void> {
    if ((await this.#subscribeOwn(connection, bridge)) || connection !== this.#connection) return
    this.#own.delete(bridge)
    void this.#publishState(connection)
  }

  /** A bridge has announced whether it has topics of its own: from now on they are used only, or no longer. */
  async #followTopics(bridge: string): Promise<void> {
    const connection = this.#connection
    const announced = this.#bridges.states.get(bridge)
    if (!connection || (announced?.state !== 'ready' && announced?.state !== 'draining')) return
    if (this.#own.has(bridge) === (announced.ownTopics === true)) return
    if (announced.ownTopics !== true) this.#own.delete(bridge)
    else if (await this.#subscribeOwn(connection, bridge)) this.#own.add(bridge, this.#options.clock.nowMs())
    else return
    if (connection === this.#connection) void this.#publishState(connection)
  }

  async #publishState(connection: MqttConnection): Promise<boolean> {
    const isPublished = await connection.publish(this.#stateMessage())
    if (isPublished) this.#stateMs = this.#options.clock.nowMs()
    else this.#options.logger.warn('device state not published')
    return isPublished
  }

  /** A bridge that has returned has this device's retained state only, which proves nothing. A fleet spreads its answers. */
  async #publishStateSoon(): Promise<void> {
    const { clock, random } = this.#options
    const connection = this.#connection
    const spreadMs = Math.min(maxSpreadMs, this.fleetSize ?? 0)
    await clock.sleep(spreadMs * random.next(), this.#closing.signal).catch(() => {})
    if (connection && connection === this.#connection && !this.#closing.signal.aborted) void this.#publishState(connection)
  }

  /** Heartbeats: a bridge that misses them knows that the device is away, without waiting for the will. */
  async #republish(connection: MqttConnection): Promise<void> {
    const { clock, heartbeatS } = this.#options
    if (heartbeatS === 0) return
    const closed = new AbortController()
    void connection.closed.then(() => closed.abort())
    const ended = AbortSignal.any([closed.signal, this.#closing.signal])
    for (;;) {
      await clock.sleep(heartbeatS * 1_000, ended).catch(() => {})
      if (ended.aborted) return
      if (!this.#isReporting()) void this.#publishState(connection)
    }
  }

  /** Whether telemetry has proven since the last heartbeat that the device is there, to every bridge. */
  #isReporting(): boolean {
    const { clock, heartbeatS } = this.#options
    const nowMs = clock.nowMs()
    const isRecent = nowMs - this.#reportedMs < heartbeatS * 1_000 && nowMs - this.#stateMs < stateEveryMs
    return isRecent && this.deltaReceivers !== undefined
  }

  #stateMessage(state?: DeviceState['state']): MqttMessage {
    const { birth, instance, agent, computing, heartbeatS } = this.#options
    const serviceFields: ReturnType<NonNullable<ControlService['stateFields']>> = Object.assign(
      {},
      ...this.#services.map(({ stateFields }) => stateFields?.()),
    )
    const message: DeviceState = {
      v: 1,
      state: 'ready',
      birth,
      at: nowIso(),
      ...(instance === undefined ? {} : { instance }),
      agent,
      modelId: this.#modelId,
      computing: computing?.(),
      clockIsSet: clockIsSet(),
      connection: this.#connections,
      ...(heartbeatS > 0 ? { heartbeatS } : {}),
      ...(this.#own.bridges.length > 0 ? { ownTopics: this.#own.bridges } : {}),
      ...serviceFields,
      ...(state === undefined ? {} : { state }),
    }
    return { topic: this.#stateTopic, message: JSON.stringify(message), delivery: deviceDelivery.state }
  }

  #onMessage(topic: string, payload: Buffer): void {
    const { fleet, device, onBridges, clock, logger } = this.#options
    const bridge = parseBridgeStateTopic(fleet, topic)
    const before = bridge === undefined ? undefined : this.#bridges.states.get(bridge)
    if (bridge !== undefined && this.#bridges.onMessage(bridge, payload)) {
      onBridges(this.#bridges.states)
      void this.#followTopics(bridge)
      if (hasReturned(before, this.#bridges.states.get(bridge))) void this.#publishStateSoon()
    }
    const own = parseDeviceTopic(fleet, topic)
    if (own?.device !== device) return
    if (own.leaf !== 'state' && !this.#own.accepts(own.bridge, payload, clock.nowMs())) {
      if (!this.#hasWarned) logger.warn({ topic }, 'message in the name of a bridge that is not its sender ignored')
      this.#hasWarned = true
      return
    }
    if (own.leaf === 'state') this.#onOwnState(payload)
    else if (own.leaf === 'faults') this.#onFault(payload)
    // A closing device takes no jobs or commands. It stores acknowledgements, so that the next start does not resend the events.
    else if (own.leaf === 'acks' || !this.#closing.signal.aborted) {
      for (const { handlers } of this.#services) handlers?.[own.leaf]?.(payload)
    }
  }

  #onOwnState(payload: Buffer): void {
    const { birth, logger } = this.#options
    const read = readMessage(DeviceState, payload)
    // Cleared, or published by a newer release under this device's id.
    if (read.kind === 'unreadable') return
    const retained = read.message
    if (this.#closing.signal.aborted) {
      if (retained.state === 'disconnected' && retained.birth === birth) this.#onGoodbyeDelivered()
      return
    }
    const step = onOwnState(retained, birth)
    if (step === 'republish' && this.#connection) void this.#publishState(this.#connection)
    if (step === 'conflict') logger.error({ birth, newer: retained.birth }, 'another agent runs under the id of this device')
  }

  /** A bridge could not read a message of this device. */
  #onFault(payload: Buffer): void {
    const { logger } = this.#options
    const read = readMessage(MessageFault, payload)
    if (read.kind === 'unreadable') return void logger.warn({ reason: read.reason }, 'unreadable fault ignored')
    const { bridge, leaf, reason, needsFullSample } = read.message
    if (needsFullSample === true) {
      this.#fullSamples += 1
      return void logger.debug({ bridge }, 'a bridge asks for a complete telemetry sample')
    }
    const err = new BrimError('MESSAGE_INVALID', `bridge "${bridge}" cannot read this device's ${leaf} message: ${reason}`, {
      hint: 'update agent and bridge to the same release',
    })
    logger.warn({ err }, 'message rejected by a bridge')
  }

  /**
   * The broker's acknowledgement does not prove that other clients were sent the state. Its delivery to the device itself,
   * which subscribes it too, does.
   * @returns whether it was delivered in time
   */
  async #publishGoodbye(connection: MqttConnection): Promise<boolean> {
    const delivered = new Promise<void>((resolve) => {
      this.#onGoodbyeDelivered = resolve
    })
    void connection.publish(this.#stateMessage('disconnected'))
    return withTimeout(goodbyeTimeoutMs, Promise.race([delivered, connection.closed]), this.#options.clock)
  }

  /** @param bridge whose own topic it is; undefined: that of all bridges */
  #topicOf(leaf: DeviceTopic, bridge?: string): string {
    return deviceTopic(this.#options.fleet, this.#options.device, leaf, bridge)
  }
}

const leavesOf = (handlers: ControlService['handlers'] = {}) => Object.keys(handlers) as DeviceTopic[]

/** Errors that another attempt does not resolve. */
const rejections: readonly ErrorCode[] = ['NOT_AUTHORIZED', 'DEVICE_CLONED', 'DEVICE_ID_TAKEN', 'IDENTITY_INVALID']

/** Whether a bridge that was known on this connection has begun anew, or was away. */
const hasReturned = (before: BridgeState | undefined, now: BridgeState | undefined): boolean =>
  before !== undefined && now?.state === 'ready' && (before.birth !== now.birth || before.state === 'lost')
