import type { AedesOptions, AuthenticateError, Client } from 'aedes'
import type { Clock } from '../../core/kit/base/clock.ts'
import { cutText, type Warn } from '../../core/kit/base/sampled-warnings.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
import { idTaken } from '../../core/wire/protocol/connack.ts'
import { DeviceState } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import { homeAssistantStatus } from '../../core/wire/protocol/topics.ts'
import { allows } from '../identity/access.ts'
import { mayTell, publisherOf, roleOf } from '../identity/acl.ts'
import type { Gate } from '../identity/gate.ts'
import type { BridgeLimits } from '../limits.ts'
import { clientAddress } from './client-stream.ts'
import { ConnectQueue } from './connect-queue.ts'
import { keptPayload } from './kept-payload.ts'
import { RetainedMessages } from './retained-messages.ts'

export interface ClientRulesOptions {
  /** Only topics of this fleet can be used. */
  readonly fleet: string
  /** Checks the bearer token or API key that clients send as password. Absent: every client is what its client id claims. */
  readonly gate: Gate | undefined
  readonly limits: BridgeLimits
  /** The client that is connected under this id. */
  readonly connected: (clientId: string) => Client | undefined
  /** A second device wants to connect under the id of a connected one. */
  readonly onIdConflict: (device: string, address: string) => void
  readonly warn: Warn
  readonly clock: Clock
}

/** CONNACK return codes (MQTT 3.1.1 §3.2.2.3). */
const connack = { identifierRejected: idTaken, serverUnavailable: 3, notAuthorized: 5 } as const

interface Refusal {
  readonly returnCode: (typeof connack)[keyof typeof connack]
  readonly reason: string
}

interface Watcher {
  readonly key: string
  /** `<role>-<name>` of the key. */
  readonly subject: string
}

const maxClientIdLength = 128
/** Beyond this many client ids all are forgotten, so memory is bounded. */
const maxClientIds = 10_000

/** Decides what the clients of the embedded broker may do, and remembers which have proven their identity. */
export class ClientRules {
  readonly #options: ClientRulesOptions
  readonly #retained: RetainedMessages
  readonly #connects: CountWindow
  readonly #queue: ConnectQueue
  #refusedConnects = 0
  readonly #proven = new WeakSet<Client>()
  /** Clients that have proven their identity by an API key, and those of them that are connected. */
  readonly #watchers = new WeakMap<Client, Watcher>()
  readonly #connectedWatchers = new Set<Client>()
  readonly #refusals = new WeakMap<Client, Refusal>()
  /** Payloads of the wills of clients. */
  readonly #wills = new WeakMap<Client, Uint8Array | string>()
  /** Filters that the client is subscribed to. */
  readonly #filters = new WeakMap<Client, Set<string>>()

  constructor(options: ClientRulesOptions) {
    const { mqttRetainedBytes, mqttConnectsPerMinute, mqttConnectsPerS, mqttConnectWaitS } = options.limits
    this.#queue = new ConnectQueue({ perS: mqttConnectsPerS, maxWaitS: mqttConnectWaitS }, options.clock)
    this.#options = options
    this.#retained = new RetainedMessages(mqttRetainedBytes)
    this.#connects = new CountWindow({ windowMs: 60_000, max: mqttConnectsPerMinute, maxKeys: maxClientIds })
  }

  /** The rules as aedes asks for them. */
  get handlers(): Required<
    Pick<AedesOptions, 'preConnect' | 'authenticate' | 'authorizePublish' | 'authorizeSubscribe' | 'authorizeForward'>
  > {
    const { warn } = this.#options
    return {
      preConnect: (client, packet, done) => {
        // Nothing is queued for absent clients: senders repeat what matters, and memory stays bounded.
        packet.clean = true
        if (packet.will) {
          packet.will.payload = keptPayload(packet.will.payload)
          this.#wills.set(client, packet.will.payload)
        }
        const address = clientAddress(client)
        const decide = (refusal = this.#judgeConnect(packet.clientId, packet.will?.topic)) => {
          if (refusal) this.#refusals.set(client, refusal)
          done(null, true)
        }
        // A client that gave up while it waited may be connected again: it must not take that connection over. Where it waited to
        // be accepted, the end of its connection is read in the next turn of the event loop, after its packet.
        const onTurn = () =>
          setImmediate(() =>
            setImmediate(() => {
              if (!client.closed) decide()
            }),
          )
        const waiting = { onTurn, isGone: () => client.closed }
        // The bridge itself does not wait.
        if (address === undefined) decide()
        else if (!this.#queue.wait(address, waiting)) decide(this.#refuseOverload())
      },
      authenticate: (client, _username, password, done) => {
        const refusal = this.#refusals.get(client) ?? this.#judgeLogin(client, password?.toString() ?? '')
        if (!refusal) return done(null, true)
        const error: AuthenticateError = Object.assign(new Error(refusal.reason), { returnCode: refusal.returnCode })
        done(error, false)
      },
      authorizePublish: (client, { topic, payload, retain }, done) => {
        const allowed = client !== null && this.#mayPublish(client, topic, retain)
        if (!allowed) return done(new Error(`it may not publish on ${topic}`))
        done(retain ? this.#retain(topic, Buffer.byteLength(payload)) : null)
      },
      authorizeSubscribe: (client, subscription, done) => {
        const reason = this.#judgeSubscription(client, subscription.topic)
        if (reason === undefined) return done(null, subscription)
        warn(
          { client: cutText(client.id), address: clientAddress(client), filter: cutText(subscription.topic), reason },
          'MQTT subscription refused',
        )
        done(null, null)
      },
      authorizeForward: (client, packet) => {
        const watcher = this.#watchers.get(client)
        const { topic } = packet
        return !watcher || allows(watcher.subject, { to: 'watch', topic, fleet: this.#options.fleet }) ? packet : null
      },
    }
  }

  /** Connections that were refused because too many waited for their turn. */
  get refusedConnects(): number {
    return this.#refusedConnects
  }

  close(): void {
    this.#queue.close()
  }

  /** Whether the client is connected rightly: proof may be required since it connected. */
  mayAct(client: Client): boolean {
    return this.#proven.has(client) || !this.#needsProof(client.id)
  }

  onConnect(client: Client): void {
    if (this.#watchers.has(client)) this.#connectedWatchers.add(client)
  }

  onDisconnect(client: Client): void {
    this.#connectedWatchers.delete(client)
  }

  /** Clients whose API key has been revoked or has expired since they connected. */
  revokedWatchers(): Client[] {
    const { gate } = this.#options
    return [...this.#connectedWatchers].filter((client) => {
      const { key, subject } = this.#watchers.get(client)!
      return gate?.subjectOf(key) !== subject
    })
  }

  onUnsubscribe(client: Client, filters: readonly string[]): void {
    const own = this.#filters.get(client)
    for (const filter of filters) own?.delete(filter)
  }

  /** Topics with a retained message whose only publisher is not connected rightly. */
  unprovenTopics(): string[] {
    const { fleet, connected } = this.#options
    return this.#retained.topics().filter((topic) => {
      const client = connected(publisherOf(topic, fleet) ?? '')
      return !client || !this.mayAct(client)
    })
  }

  onCleared(topic: string): void {
    this.#retained.put(topic, 0)
  }

  /** A client is a bridge only by proof, even where none is required of devices. */
  #needsProof(clientId: string): boolean {
    const { gate } = this.#options
    return gate !== undefined && (gate.authRequired || roleOf(clientId).kind === 'bridge')
  }

  #judgeConnect(clientId: string, willTopic: string | undefined): Refusal | undefined {
    if (clientId.length > maxClientIdLength)
      return { returnCode: connack.identifierRejected, reason: `its client id has more than ${maxClientIdLength} characters` }
    const isHome = willTopic === homeAssistantStatus && roleOf(clientId).kind === 'watcher'
    if (willTopic !== undefined && !isHome && !this.#allowsPublish(clientId, willTopic))
      return { returnCode: connack.notAuthorized, reason: `it may not have a will on ${willTopic}` }
    return undefined
  }

  #refuseOverload(): Refusal {
    this.#refusedConnects += 1
    return { returnCode: connack.serverUnavailable, reason: 'too many clients connect at once: --limit mqttConnectsPerS=…' }
  }

  #judgeLogin(client: Client, password: string): Refusal | undefined {
    const { gate, clock } = this.#options
    const { id } = client
    const subject = password === '' ? undefined : gate?.subjectOf(password)
    const isWatcher = subject !== undefined && roleOf(id).kind === 'watcher' && allows(subject, { to: 'read' })
    const isProven = isWatcher || (subject === id && allows(id, { to: 'join' }))
    if (!isProven && this.#needsProof(id))
      return { returnCode: connack.notAuthorized, reason: 'no valid token or key for this client id' }
    if (isProven) this.#proven.add(client)
    if (isWatcher) this.#watchers.set(client, { key: password, subject })
    if (roleOf(id).kind === 'bridge') return undefined
    if (!this.#connects.take(id, clock.nowMs()))
      return { returnCode: connack.serverUnavailable, reason: 'it connects too often: --limit mqttConnectsPerMinute=…' }
    return this.#judgeInstance(client)
  }

  /** An agent takes over its own earlier connection, but not that of another agent under the same id. */
  #judgeInstance(client: Client): Refusal | undefined {
    const { connected, onIdConflict } = this.#options
    const before = connected(client.id)
    const role = roleOf(client.id)
    if (!before || role.kind !== 'device') return undefined
    const [own, other] = [client, before].map((each) => instanceIn(this.#wills.get(each)))
    if (own === undefined || other === undefined || own === other) return undefined
    onIdConflict(role.id, clientAddress(client) ?? '')
    return { returnCode: idTaken, reason: 'another device uses its id' }
  }

  #mayPublish(client: Client, topic: string, retain: boolean): boolean {
    if (!this.mayAct(client)) return false
    const { fleet } = this.#options
    if (roleOf(client.id).kind !== 'watcher')
      return this.#allowsPublish(client.id, topic) && (!retain || publisherOf(topic, fleet) === client.id)
    // One without a key is connected only where no client needs one.
    const subject = this.#watchers.get(client)?.subject
    return !retain && (subject === undefined ? mayTell(true, topic, fleet) : allows(subject, { to: 'tell', topic, fleet }))
  }

  /** @returns why the message is refused */
  #retain(topic: string, payloadBytes: number): Error | null {
    if (payloadBytes > this.#options.limits.mqttRetainedMessageBytes)
      return new Error(`a retained message of ${payloadBytes} bytes: --limit mqttRetainedMessageBytes=…`)
    if (!this.#retained.put(topic, payloadBytes))
      return new Error('no memory is left for retained messages: --limit mqttRetainedBytes=…')
    return null
  }

  #allowsPublish(clientId: string, topic: string): boolean {
    return allows(clientId, { to: 'publish', topic, fleet: this.#options.fleet })
  }

  /** @returns why it is refused */
  #judgeSubscription(client: Client, filter: string): string | undefined {
    const { fleet, limits } = this.#options
    if (!this.mayAct(client) || !allows(client.id, { to: 'subscribe', filter, fleet })) return 'not allowed'
    const filters = this.#filters.get(client) ?? new Set()
    if (filters.size >= limits.mqttSubscriptions && !filters.has(filter))
      return 'too many subscriptions: --limit mqttSubscriptions=…'
    this.#filters.set(client, filters.add(filter))
    return undefined
  }
}

/** Of the device's state that its will would publish. */
function instanceIn(will: Uint8Array | string | undefined): string | undefined {
  if (will === undefined) return undefined
  const read = readMessage(DeviceState, Buffer.from(will))
  return read.kind === 'message' ? read.message.instance : undefined
}
