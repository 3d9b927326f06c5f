import type { TLSSocket } from 'node:tls'
import { connect, type IClientOptions, MqttClient } from 'mqtt'
import { type Clock, clockIsSet, nowIso } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { sendAtOnce } from '../../core/base/no-delay.ts'
import type { Random } from '../../core/base/random.ts'
import type { Measurements } from '../../core/policy/telemetry/dead-bands.ts'
import { bridgeStateDelivery, deviceDelivery, publishOptions } from '../../core/protocol/delivery.ts'
import { BridgeState, DeviceState, type DeviceTelemetry, MessageFault } from '../../core/protocol/messages.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import { allBridgeStates, type DeviceTopic, deviceTopic, parseBridgeStateTopic } from '../../core/protocol/topics.ts'
import type { Credentials } from '../identity/credentials.ts'
import type { JobPort } from '../jobs/device-jobs.ts'
import type { RemotePort } from '../remote/commands.ts'
import { keepConnected } from './keep-connected.ts'

const connectTimeoutMs = 10_000
const goodbyeTimeoutMs = 2_000
const retained = publishOptions(deviceDelivery.state)

export interface ControlLinkOptions {
  /** mqtt://host:port */
  readonly url: string
  readonly fleet: string
  readonly device: string
  /** Persisted counter, one more at every start: it tells our state from that of an earlier start. */
  readonly birth: number
  /** Version of this agent. */
  readonly agent: string
  readonly modelId: string
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** For a bridge that this device has enrolled at. */
  readonly credentials?: Credentials | undefined
  /** The bridges that have announced themselves, whenever one has changed. */
  readonly onBridges: (states: ReadonlyMap<string, BridgeState>) => void
  /** Absent: this device takes no jobs. */
  readonly jobs?: JobPort | undefined
  /** Absent: this device takes no commands. */
  readonly remote?: RemotePort | undefined
  /** The retained state is said again so often; 0: only when it changes. */
  readonly heartbeatS: number
}

/** The device on the control plane: its retained state with a will, and the states of the bridges. */
export interface ControlLink {
  start(): void
  readonly connected: boolean
  /** Connected, and a bridge has announced itself there. */
  readonly hasBridge: boolean
  /** Why the bridge does not let this device in, where that is what it said last. */
  readonly refusal: BrimError | undefined
  /** Somebody needs a bridge: tries at once; resolves when the attempt has succeeded or failed. */
  retryNow(): Promise<void>
  /** Publishes telemetry once, for those who listen now. @returns false where it could not be said */
  report(measured: Measurements): boolean
  /** Says something under the device's own name, at least once. @returns whether the broker has it */
  publish(leaf: DeviceTopic, message: string): Promise<boolean>
  /** Publishes `disconnected` and leaves; the will stays unsaid. */
  close(): Promise<void>
}

/** Comes back by itself, for good; that there is no broker yet is no error. */
export function createControlLink(options: ControlLinkOptions): ControlLink {
  const { url, fleet, device, birth, agent, modelId, clock, logger, jobs, remote, heartbeatS } = options
  const topicOf = (leaf: DeviceTopic) => deviceTopic(fleet, device, leaf)
  const topic = topicOf('state')
  const [jobTopic, ackTopic, faultTopic, commandTopic] = [
    topicOf('jobs'),
    topicOf('acks'),
    topicOf('faults'),
    topicOf('commands'),
  ]
  const heardLeaves: readonly DeviceTopic[] = [
    ...(['state', 'faults'] as const),
    ...(jobs ? (['jobs', 'acks'] as const) : []),
    ...(remote ? (['commands'] as const) : []),
  ]
  const filters = {
    [allBridgeStates(fleet)]: { qos: bridgeStateDelivery.qos },
    ...Object.fromEntries(heardLeaves.map((leaf) => [topicOf(leaf), { qos: deviceDelivery[leaf].qos }])),
  }
  const bridges = new Map<string, BridgeState>()
  /** Bridges whose state cannot be read, told of once. */
  const garbled = new Set<string>()
  let client: MqttClient | undefined
  let closing = false
  let connection = 0
  let refusal: BrimError | undefined
  const say = (state: DeviceState['state']): string =>
    JSON.stringify({
      v: 1,
      state,
      birth,
      at: nowIso(),
      agent,
      modelId,
      ...(jobs ? { jobs: [...jobs.kinds] } : {}),
      clockIsSet: clockIsSet(),
      connection,
      ...(heartbeatS > 0 ? { heartbeatS } : {}),
    } satisfies DeviceState)
  const publish = (on: MqttClient, done = () => {}) =>
    on.publish(topic, say(remote?.state ?? 'ready'), retained, (err) => {
      if (err) logger.warn({ err }, 'device state not published')
      done()
    })

  /** Presence that depends on nothing else: a bridge that hears no more of it need not wait for a will. */
  async function beat(on: MqttClient, signal: AbortSignal): Promise<void> {
    while (heartbeatS > 0 && !signal.aborted && !closing) {
      await clock.sleep(heartbeatS * 1_000, signal).catch(() => {})
      if (!signal.aborted && !closing) publish(on)
    }
  }

  function heard(from: MqttClient, on: string, payload: Uint8Array): void {
    const bridge = parseBridgeStateTopic(fleet, on)
    if (bridge !== undefined) heardBridge(bridge, payload)
    else if (on === topic && !closing) heardSelf(from, payload)
    else if (on === ackTopic) jobs?.onAck(payload)
    else if (on === commandTopic && !closing) remote?.onCommand(payload)
    else if (on === faultTopic) heardFault(payload)
  }

  function heardSelf(from: MqttClient, payload: Uint8Array): void {
    const read = readMessage(DeviceState, payload)
    // Of a newer agent under our id, or cleared: not ours to answer.
    if (read.kind === 'unreadable') return
    const said = read.message
    // A late will, or the state of an earlier start, has replaced what we retained.
    if (said.birth < birth || said.state === 'lost') publish(from)
    else if (said.birth > birth) logger.error({ birth, newer: said.birth }, 'another agent has started under our id')
  }

  function heardBridge(bridge: string, payload: Uint8Array): void {
    const read = readMessage(BridgeState, payload)
    if (read.kind === 'unreadable') {
      // An empty payload only clears what the broker retained.
      if (payload.byteLength > 0 && !garbled.has(bridge)) {
        logger.warn(
          { err: new BrimError(read.code, `the state of bridge "${bridge}" cannot be read: ${read.reason}`) },
          'state of a bridge ignored',
        )
        garbled.add(bridge)
      }
      bridges.delete(bridge)
      options.onBridges(bridges)
      return
    }
    const said = read.message
    // A late will. One that is alive may count its births anew: its store was lost.
    if (said.state === 'lost' && said.birth < (bridges.get(bridge)?.birth ?? 0)) return
    bridges.set(bridge, said)
    garbled.delete(bridge)
    options.onBridges(bridges)
  }

  /** A bridge could not read what this device has said. */
  function heardFault(payload: Uint8Array): void {
    const read = readMessage(MessageFault, payload)
    if (read.kind === 'unreadable') return void logger.warn({ reason: read.reason }, 'unreadable fault ignored')
    const { bridge, leaf, reason } = read.message
    const err = new BrimError('MESSAGE_INVALID', `bridge "${bridge}" cannot read what this device says on ${leaf}: ${reason}`, {
      hint: 'update agent and bridge to the same release',
    })
    logger.warn({ err }, 'not understood by a bridge')
  }

  /** Handlers are attached in the turn of `connect`, before the broker can have answered. */
  function attempt(
    signal: AbortSignal,
    password: string | undefined,
    socket: TLSSocket | undefined,
  ): Promise<{ gone: Promise<unknown> }> {
    connection += 1
    const settings: IClientOptions = {
      clientId: `device-${device}`,
      protocolVersion: 4,
      ...(password === undefined ? {} : { username: `device-${device}`, password }),
      clean: true,
      reconnectPeriod: 0,
      connectTimeout: connectTimeoutMs,
      will: { topic, payload: Buffer.from(say('lost')), ...retained },
    }
    const made = socket ? new MqttClient(() => socket, settings) : connect(url, settings)
    let failure: Error | undefined
    made.on('error', (error) => {
      failure = error
    })
    made.on('message', (on, payload) => heard(made, on, payload))
    // Before its acknowledgement: what was acknowledged must not be lost with this process.
    made.handleMessage = ({ topic: on, payload }, acknowledge) => {
      if (on !== jobTopic || !jobs || closing) return acknowledge()
      try {
        jobs.onJob(Buffer.from(payload))
        acknowledge()
      } catch (err) {
        logger.error({ err }, 'job not stored: it will be sent again')
        made.end(true)
      }
    }
    const ended = new AbortController()
    const gone = new Promise<unknown>((resolve) => {
      made.once('close', () => {
        ended.abort()
        if (client === made) {
          client = undefined
          jobs?.onLink(undefined)
          remote?.onLink(undefined)
        }
        made.end(true)
        resolve(failure)
      })
    })
    return new Promise((resolve, reject) => {
      const abort = () => made.end(true)
      signal.addEventListener('abort', abort, { once: true })
      const decided = () => signal.removeEventListener('abort', abort)
      made.once('connect', () => {
        decided()
        sendAtOnce(made.stream)
        client = made
        // What is retained comes again.
        bridges.clear()
        void beat(made, AbortSignal.any([signal, ended.signal]))
        made.subscribe(filters, (err) => {
          if (err) logger.warn({ err }, 'not subscribed to all that is said to this device')
        })
        publish(made)
        const sayOn = (leaf: DeviceTopic) => (message: string) =>
          made.publish(topicOf(leaf), message, publishOptions(deviceDelivery[leaf]))
        jobs?.onLink(sayOn('events'))
        remote?.onLink({
          reply: sayOn('replies'),
          log: sayOn('log'),
          announce: () => new Promise((resolve) => void publish(made, resolve)),
        })
        logger.info({ url }, 'control plane connected')
        resolve({ gone })
      })
      void gone.then((cause) => {
        decided()
        reject(unreachable(url, cause))
      })
    })
  }

  async function connectOnce(signal: AbortSignal): Promise<{ gone: Promise<unknown> }> {
    try {
      const password = await options.credentials?.mqttPassword(signal)
      const socket = await options.credentials?.dial(url, signal)
      signal.throwIfAborted()
      const connection = await attempt(signal, password, socket)
      refusal = undefined
      return connection
    } catch (error) {
      refusal = error instanceof BrimError && refusals.includes(error.code) ? error : undefined
      throw error
    }
  }

  const persistent = keepConnected({ ...options, name: 'control plane', connect: connectOnce })
  return {
    start: () => persistent.start(),
    get connected() {
      return client !== undefined
    },
    get hasBridge() {
      return (
        client !== undefined && !closing && [...bridges.values()].some(({ state }) => state === 'ready' || state === 'draining')
      )
    },
    get refusal() {
      return refusal
    },
    retryNow: () => persistent.retryNow(),
    report(measured) {
      if (!client || closing) return false
      const telemetry: DeviceTelemetry = { v: 1, at: nowIso(), birth, clockIsSet: clockIsSet(), ...measured }
      client.publish(topicOf('telemetry'), JSON.stringify(telemetry), publishOptions(deviceDelivery.telemetry))
      return true
    },
    publish(leaf, message) {
      const on = client
      if (!on || closing) return Promise.resolve(false)
      return new Promise((resolve) => {
        const lost = () => resolve(false)
        on.once('close', lost)
        on.publish(topicOf(leaf), message, publishOptions(deviceDelivery[leaf]), (err) => {
          on.off('close', lost)
          resolve(!err)
        })
      })
    },
    async close() {
      closing = true
      const open = client
      const stopped = persistent.stop()
      if (open) {
        const wasHeard = await goodbye(open, topic, say('disconnected'), clock)
        // A broker that no longer answers would be waited for in vain.
        await open.endAsync(!wasHeard)
      }
      await stopped
    },
  }
}

/**
 * An acknowledgement does not prove that anyone was told; that it came back to us, who listen too, does.
 * @returns whether it came back in time
 */
async function goodbye(client: MqttClient, topic: string, state: string, clock: Clock): Promise<boolean> {
  const said = new AbortController()
  client.on('message', (on, payload) => {
    if (on === topic && payload.toString() === state) said.abort()
  })
  client.once('close', () => said.abort())
  client.publish(topic, state, retained)
  await clock.sleep(goodbyeTimeoutMs, said.signal).catch(() => {})
  return said.signal.aborted
}

/** What trying again does not mend. */
const refusals: readonly ErrorCode[] = ['NOT_AUTHORIZED', 'DEVICE_CLONED', 'IDENTITY_INVALID']
/** CONNACK return codes: bad user name or password, not authorised. */
const connackRefusals = [4, 5]

function unreachable(url: string, cause: unknown): BrimError {
  if (cause instanceof Error && 'code' in cause && connackRefusals.some((code) => code === cause.code))
    return new BrimError('NOT_AUTHORIZED', `the broker ${url} does not let this device in`, {
      cause,
      hint: 'brim agent enroll makes it known there; --bridge must name the address that it enrolled at',
    })
  return new BrimError('BROKER_UNREACHABLE', `the broker ${url} cannot be reached`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'does it run, and is the address right?',
  })
}
