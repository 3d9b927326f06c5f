import { connect, type Socket } from 'node:net'
import { generate, type IConnectPacket, type Packet, parser } from 'mqtt-packet'
import { SampleEncoder } from '../../../agent/telemetry/sample-encoder.ts'
import { nowIso } from '../../../core/kit/base/clock.ts'
import type { Random } from '../../../core/kit/base/random.ts'
import { backoffLimits, failuresAfter, fullJitterMs } from '../../../core/policy/link/back-off.ts'
import type { JobKind, ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import type { BridgeState, DeviceState } from '../../../core/wire/protocol/messages.ts'
import { allBridgeStates, type DeviceTopic, deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { finishingEvents } from '../../cluster/job-device.ts'
import { sampleOf } from './sample.ts'

/** What the devices of one process have done since the last `take`. */
export interface FleetCounts {
  /** Attempts to connect that reached the broker, and those of them that did not end in a CONNACK that accepts. */
  attempts: number
  refused: number
  /** Attempts that found no listener. */
  unreached: number
  /** Established connections that have closed. */
  lost: number
  samples: number
  jobs: number
  /** From the publication of a sample to its PUBACK. */
  pubackMs: number[]
}

export interface SimulatedFleet {
  readonly host: string
  readonly port: number
  readonly fleet: string
  readonly bridge: string
  /** Seconds between two samples of a device. */
  readonly sampleEveryS: number
  readonly random: Random
  readonly counts: FleetCounts
}

type Topic = Extract<DeviceTopic, 'state' | 'telemetry' | 'events'>

const kinds: readonly JobKind[] = ['slm.generate', 'hat.generate', 'hat.verify', 'profile', 'bundle.install']
const subscribed: readonly DeviceTopic[] = ['state', 'faults', 'jobs', 'acks', 'commands']
/** As agent/link has them. */
const [connectTimeoutMs, keepAliveS, heartbeatS, reconnectMaxMs] = [10_000, 60, 30, 30_000]
const agent = '0.3.0'
const birth = 1

/**
 * A device on the control plane, with the packets that an agent sends, on a socket of its own: birth, will, subscriptions,
 * retained state, samples as deltas, jobs from acceptance to result, and reconnections with full jitter. One process holds
 * thousands, which as many agents would not fit on a machine.
 */
export class LoadDevice {
  readonly #fleet: SimulatedFleet
  readonly #id: string
  readonly #instance: string
  readonly #startedS: number
  #socket: Socket | undefined
  #timer: NodeJS.Timeout | undefined
  #failures = 0
  #connections = 0
  #packetId = 0
  #fleetSize: number | undefined
  /** The subscriptions are granted, and the retained state is at the broker. */
  #isSubscribed = false
  #hasState = false
  readonly #encoder = new SampleEncoder(birth, {})
  /** How often the bridge has lost the complete sample, or may have. */
  #lostSamples = 0
  /** When the samples in flight were published, by packet id. */
  readonly #sentMs = new Map<number, number>()

  constructor(fleet: SimulatedFleet, id: string) {
    this.#fleet = fleet
    this.#id = id
    this.#instance = Array.from({ length: 4 }, () =>
      Math.floor(fleet.random.next() * 65_536)
        .toString(16)
        .padStart(4, '0'),
    ).join('')
    this.#startedS = Math.round(fleet.random.next() * 1e6)
  }

  get isEstablished(): boolean {
    return this.#isSubscribed && this.#hasState
  }

  startIn(ms: number): void {
    this.#timer = setTimeout(() => this.#connect(), ms)
  }

  #connect(): void {
    const { host, port, counts } = this.#fleet
    const startedMs = performance.now()
    const socket = connect({ host, port, noDelay: true })
    this.#socket = socket
    this.#connections += 1
    let [isReached, isAccepted] = [false, false]
    const packets = parser()
    packets.on('packet', (packet) => {
      if (packet.cmd === 'connack' && packet.returnCode === 0) {
        isAccepted = true
        counts.attempts += 1
        this.#onAccepted()
      } else if (packet.cmd === 'connack') socket.destroy()
      else this.#onPacket(packet)
    })
    // A process that was short of CPU first reads what has arrived meanwhile.
    const timeout = setTimeout(
      () =>
        setImmediate(() => {
          if (!isAccepted) socket.destroy()
        }),
      connectTimeoutMs,
    )
    socket.on('connect', () => {
      isReached = true
      socket.write(generate(this.#connectPacket()))
    })
    socket.on('data', (chunk) => packets.parse(chunk))
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timeout)
      if (isAccepted) counts.lost += 1
      else if (isReached) {
        counts.attempts += 1
        counts.refused += 1
      } else counts.unreached += 1
      this.#onClosed(performance.now() - startedMs)
    })
  }

  #onClosed(lastedMs: number): void {
    clearTimeout(this.#timer)
    this.#isSubscribed = false
    this.#hasState = false
    this.#lostSamples += 1
    this.#sentMs.clear()
    this.#failures = failuresAfter(this.#failures, lastedMs)
    this.startIn(fullJitterMs(this.#failures, backoffLimits(this.#fleetSize, reconnectMaxMs), this.#fleet.random.next()))
  }

  #onAccepted(): void {
    const { fleet, sampleEveryS, random } = this.#fleet
    const filters = [allBridgeStates(fleet), ...subscribed.map((leaf) => deviceTopic(fleet, this.#id, leaf))]
    const subscriptions = filters.map((topic) => ({ topic, qos: 1 as const }))
    this.#send({ cmd: 'subscribe', messageId: this.#nextPacketId(), subscriptions })
    this.#stateId = this.#publish('state', JSON.stringify(this.#state()), true)
    // The first sample comes at once, the others are spread over the interval by when each device was started.
    this.#sample()
    this.#timer = setTimeout(() => this.#sampleAgain(), random.next() * sampleEveryS * 1_000)
  }

  #stateId = 0

  #sampleAgain(): void {
    this.#timer = setTimeout(() => this.#sampleAgain(), this.#fleet.sampleEveryS * 1_000)
    this.#sample()
  }

  #onPacket(packet: Packet): void {
    if (packet.cmd === 'suback') this.#isSubscribed = true
    else if (packet.cmd === 'puback') this.#onPuback(packet.messageId ?? 0)
    else if (packet.cmd === 'publish') {
      if (packet.qos > 0) this.#send({ cmd: 'puback', messageId: packet.messageId ?? 0 })
      this.#onMessage(packet.topic, packet.payload.toString())
    }
  }

  #onPuback(id: number): void {
    if (id === this.#stateId) this.#hasState = true
    const sentMs = this.#sentMs.get(id)
    if (sentMs === undefined) return
    this.#sentMs.delete(id)
    this.#fleet.counts.pubackMs.push(performance.now() - sentMs)
  }

  #onMessage(topic: string, payload: string): void {
    const leaf = topic.slice(topic.lastIndexOf('/') + 1)
    if (topic.includes('/bridge/')) this.#fleetSize = (JSON.parse(payload) as BridgeState).devices ?? this.#fleetSize
    // A bridge that was restarted asks for a complete sample.
    else if (leaf === 'faults') this.#lostSamples += 1
    else if (leaf === 'jobs') this.#run(JSON.parse(payload))
    else if (leaf === 'state') {
      const { state } = JSON.parse(payload) as DeviceState
      // The late will of the connection before.
      if (state === 'lost') this.#publish('state', JSON.stringify(this.#state()), true)
    }
  }

  #run(message: ToJobDevice): void {
    if (message.type !== 'run') return
    for (const event of finishingEvents(message)) this.#publish('events', JSON.stringify(event))
    this.#fleet.counts.jobs += 1
  }

  #sample(): void {
    const { bridge, random, counts } = this.#fleet
    const ms = performance.now()
    const measured = sampleOf(bridge, this.#startedS + Math.round(ms / 1_000), random)
    // Receivers without its complete sample count as others.
    const receivers = String(this.#lostSamples)
    const text = this.#encoder.encode(measured, receivers, { ms, at: nowIso(), clockIsSet: true })
    this.#sentMs.set(this.#publish('telemetry', text), ms)
    counts.samples += 1
  }

  #state(state: DeviceState['state'] = 'ready'): DeviceState {
    const connection = this.#connections
    const own = { instance: this.#instance, agent, modelId: 'a'.repeat(64), clockIsSet: true, connection, heartbeatS }
    return { v: 1, state, birth, at: nowIso(), ...own, jobs: [...kinds] }
  }

  #connectPacket(): IConnectPacket {
    const payload = Buffer.from(JSON.stringify(this.#state('lost')))
    const topic = deviceTopic(this.#fleet.fleet, this.#id, 'state')
    const will = { topic, payload, qos: 1 as const, retain: true }
    return {
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: 4,
      clean: true,
      clientId: `device-${this.#id}`,
      keepalive: keepAliveS,
      will,
    }
  }

  /** @returns the packet id */
  #publish(leaf: Topic, payload: string, retain = false): number {
    const messageId = this.#nextPacketId()
    const topic = deviceTopic(this.#fleet.fleet, this.#id, leaf)
    this.#send({ cmd: 'publish', topic, payload, qos: 1, dup: false, retain, messageId })
    return messageId
  }

  #send(packet: Packet): void {
    if (this.#socket?.writable) this.#socket.write(generate(packet))
  }

  #nextPacketId(): number {
    this.#packetId = (this.#packetId % 65_535) + 1
    return this.#packetId
  }
}
