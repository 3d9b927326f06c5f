import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { sampledWarnings, type Warn } from '../../core/kit/base/sampled-warnings.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { version } from '../../core/kit/base/version.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { DeviceTopics, type WantedMessage } from '../../core/policy/fleet/device-topics.ts'
import { figuresOf } from '../../core/policy/fleet/fleet-row.ts'
import { discoveryOf, homeEntities } from '../../core/policy/fleet/home-entities.ts'
import { DrainRequest, HomeState } from '../../core/wire/protocol/home.ts'
import type { Device } from '../../core/wire/protocol/http/devices.ts'
import { deviceStates } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import { bridgeStateTopic, deviceTopic, discoveryTopic, homeTopic, parseHomeTopic } from '../../core/wire/protocol/topics.ts'
import type { OpenFleet } from '../fleet/open-fleet.ts'
import type { HomeTraffic } from '../link/control.ts'

/** A migration: topics with a retained message, so that a later start clears them. */
export const homeTable = 'CREATE TABLE home_topics (topic TEXT PRIMARY KEY, device TEXT NOT NULL) STRICT, WITHOUT ROWID'

/** Interval of the messages about one device. */
const everyMs = 1_000
/** About 20 KB of retained messages each. */
const maxDevices = 500
const tooMany = 'too many devices for Home Assistant'
/** A command that a device has not received by then is dropped: the switch shows that it has not. */
const commandS = 30

export interface HomeAssistantOptions {
  /** Must have `homeTable`. */
  readonly store: Store
  readonly fleet: string
  readonly bridge: string
  readonly devices: Pick<OpenFleet, 'fleet' | 'feed' | 'commands'>
  readonly downlink: { readonly isConnected: boolean; retain(topic: string, message: string): void }
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * Describes the devices to Home Assistant by MQTT discovery, publishes their figures, and sends them the commands of its
 * switches. The bridge does it, not the agents: it knows complete samples, problems, and which devices have been removed.
 */
export class HomeAssistant implements HomeTraffic {
  readonly filters
  readonly #options: HomeAssistantOptions
  readonly #known = new Map<string, DeviceTopics>()
  readonly #due: Set<string>
  readonly #statements
  readonly #stop: () => Promise<void>
  readonly #unsubscribe: () => void
  readonly #warn: Warn

  constructor(options: HomeAssistantOptions) {
    const { store, devices, fleet, bridge, clock, logger } = options
    this.#options = options
    this.#warn = sampledWarnings(logger, clock)
    this.filters = [homeTopic(fleet, bridge, 'drain', '+')]
    this.#statements = {
      insert: store.prepare<[string, string]>('INSERT OR IGNORE INTO home_topics (topic, device) VALUES (?, ?)'),
      delete: store.prepare<[string]>('DELETE FROM home_topics WHERE topic = ?'),
    }
    for (const [device, topics] of topicsIn(store)) this.#known.set(device, new DeviceTopics(topics))
    this.#due = new Set([...this.#known.keys(), ...devices.fleet.devices().map(({ id }) => id)])
    this.#unsubscribe = devices.feed.subscribe((device, change) => {
      if (change === 'state' || change === 'telemetry') this.#due.add(device)
    })
    this.#stop = repeatEvery(clock, everyMs, () =>
      tryOrLog(logger, 'devices not described to Home Assistant', () => this.#send()),
    )
  }

  onConnect(): void {
    for (const [device, topics] of this.#known) {
      topics.onConnect()
      this.#due.add(device)
    }
  }

  onMessage(topic: string, payload: Uint8Array, isRetained: boolean): void {
    const { fleet, bridge } = this.#options
    const request = parseHomeTopic(fleet, topic)
    if (request?.leaf === 'drain' && request.bridge === bridge && !isRetained) this.#onRequest(request.device, payload)
  }

  async close(): Promise<void> {
    this.#unsubscribe()
    await this.#stop()
  }

  #onRequest(device: string, payload: Uint8Array): void {
    const { devices, logger } = this.#options
    const read = readMessage(DrainRequest, payload)
    if (read.kind === 'unreadable' || !devices.fleet.has(device)) {
      logger.warn({ device, reason: read.kind === 'unreadable' ? read.reason : 'no such device' }, 'request to drain ignored')
      return
    }
    tryOrLog(logger, 'command not stored', () =>
      devices.commands.send(device, { type: read.message.type }, 'home-assistant', commandS),
    )
  }

  #send(): void {
    const { devices, downlink, store, clock } = this.#options
    if (!downlink.isConnected || this.#due.size === 0) return
    store
      .transaction(() => {
        for (const id of this.#due) this.#sendOf(id, devices.fleet.device(id), clock.nowMs())
      })
      .immediate()
    this.#due.clear()
  }

  #sendOf(id: string, device: Device | undefined, nowMs: number): void {
    const topics = this.#known.get(id) ?? new DeviceTopics()
    if (!this.#known.has(id) && this.#known.size >= maxDevices) return void this.#warn({ maxDevices, device: id }, tooMany)
    for (const { topic, payload } of topics.update(device ? this.#wanted(device) : [], nowMs)) {
      if (payload === '') this.#statements.delete.run(topic)
      else this.#statements.insert.run(topic, id)
      this.#options.downlink.retain(topic, payload)
    }
    if (topics.topics.length === 0) this.#known.delete(id)
    else this.#known.set(id, topics)
  }

  #wanted(device: Device): WantedMessage[] {
    const { fleet, bridge } = this.#options
    const state = HomeState.parse({ v: 1, ...figuresOf(device) })
    // It has not connected, or may not: to its users there is no such device.
    if (!deviceStates.some((known) => known === state.state)) return []
    const topics = {
      state: homeTopic(fleet, bridge, 'home', device.id),
      drain: homeTopic(fleet, bridge, 'drain', device.id),
      deviceState: deviceTopic(fleet, device.id, 'state'),
      bridgeState: bridgeStateTopic(fleet, bridge),
    }
    const unknown = device.telemetry === null ? 'unknown' : 'missing'
    const entities = Object.entries(homeEntities).map(
      ([name, entity]): WantedMessage => ({
        topic: discoveryTopic(fleet, bridge, entity.component, `${device.id}_${name}`),
        payload: JSON.stringify(discoveryOf(name, entity, device, fleet, topics, version)),
        presence: entity.isHardware && state[entity.field] === null ? unknown : 'known',
      }),
    )
    return [...entities, { topic: topics.state, payload: JSON.stringify(state), presence: 'known' }]
  }
}

/** By device. */
function topicsIn(store: Store): Map<string, string[]> {
  const rows = store.prepare<[], { topic: string; device: string }>('SELECT topic, device FROM home_topics').all()
  const topics = new Map<string, string[]>()
  for (const { topic, device } of rows) topics.set(device, [...(topics.get(device) ?? []), topic])
  return topics
}
