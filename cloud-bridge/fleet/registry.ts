import { isDeepStrictEqual } from 'node:util'
import { type Clock, isoOf } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { providerInUse } from '../../core/policy/fleet/fleet-row.ts'
import { hasMissedHeartbeats, isConnected } from '../../core/policy/fleet/presence.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
import type { Device, LatestTelemetry } from '../../core/wire/protocol/http/devices.ts'
import { DeviceState, type DeviceTelemetry } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'
import { DeviceTable, type StoredDevice } from './device-table.ts'
import { unpackSample } from './packed-sample.ts'
import { StateLimit } from './state-limit.ts'
import { type ReadSample, TelemetryReader } from './telemetry-reader.ts'

/** Minimum time between two writes of `last_seen` for heartbeats. */
const storeEveryMs = 5 * 60_000
/** Refused devices that are logged and told, all together. */
const refusalLimits = { windowMs: 60_000, max: 10, maxKeys: 1 }

export interface RegistryOptions {
  /** Must have `devicesTable` and `devicesComputing`. */
  readonly store: Store
  readonly isEnrolled: (device: string) => boolean
  readonly limits: {
    readonly deviceStatesPerMinute: number
    readonly telemetrySampleBytes: number
    readonly unenrolledDevices: number
  }
  readonly onUnreadable: OnUnreadable
  /** A delta of this device builds on a sample that the bridge does not have. */
  readonly onBaseless: (device: string) => void
  /** The latest sample of a device has changed. */
  readonly onTelemetry?: (device: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

/** A device that has published a state. */
export interface DeviceRecord extends StoredDevice, Pick<Device, 'telemetry'> {}

export interface Registry {
  /** Counts every device as lost until it publishes its state again: for the start of the bridge. */
  markAllLost(): void
  /**
   * A device's state as the broker delivered it. Ignores unreadable states and the late will of an earlier birth. A
   * device that is connected may start its births at 1 again: its agent was installed again. Never throws.
   * @param isRetained the broker has kept it: it may be of another day, and proves no presence
   * @returns the state if it is valid and new; undefined for a heartbeat, and for a state that counts later
   */
  onState(device: string, payload: Uint8Array, isRetained?: boolean): DeviceState | undefined
  /**
   * The states of devices that changed them too often, once they count, and of devices whose heartbeats stopped, once they
   * send telemetry again. Call it every second.
   */
  takeDueStates(): { readonly device: string; readonly state: DeviceState }[]
  /**
   * Marks the devices as lost whose heartbeats stopped. Their wills were not published, because the broker failed too.
   * @returns their states
   */
  expireHeartbeats(): { readonly device: string; readonly state: DeviceState }[]
  /** The bridge received no messages: restarts the time limits of heartbeats, and counts the next state of each device as new. */
  onBrokerLost(): void
  /**
   * A device's telemetry as the broker delivered it. Caches the latest sample in memory, unless it is replayed; then it
   * proves, as a heartbeat does, that the device is there.
   * @returns the sample if it is readable and the device is registered
   */
  onTelemetry(device: string, payload: Uint8Array): ReadSample | undefined
  /**
   * Deletes what devices reported that are not `known`.
   * @returns those that counted as connected, with the state `lost`
   */
  forgetExcept(known: (device: string) => boolean): { readonly device: string; readonly state: DeviceState }[]
  device(id: string): DeviceRecord | undefined
  ids(): IterableIterator<string>
  /** Latest sample of a device; null: none since the start. */
  telemetryOf(id: string): LatestTelemetry | null
  counts(): Record<DeviceState['state'], number>
  /** Number of connected devices by what computes their split model, else their small one. */
  computing(): Record<string, number>
  /** Whether the device has published a state: the number of such devices is limited, so what they send may be held. */
  isRegistered(device: string): boolean
  /** Whether all that is known of a connected device is a state that a broker had retained. */
  isUnproven(device: string): boolean
  /** Number of devices that have published a state. */
  readonly size: number
  /** The last state of a device; undefined: it never published one. */
  lastState(device: string): Pick<DeviceState, 'state' | 'birth'> | undefined
  /** Stores what devices have reported since, in one commit. Call it every second, and at the end. Never throws. */
  write(): void
}

/** The devices of the fleet, their states and their latest samples. */
export function createRegistry(options: RegistryOptions): Registry {
  const { store, isEnrolled, limits, onUnreadable, onBaseless, onTelemetry = () => {}, clock, logger } = options
  const table = new DeviceTable(store)
  const stateLimit = new StateLimit(limits.deviceStatesPerMinute, clock)
  const refusals = new CountWindow(refusalLimits)
  const connected = new Map<string, ConnectedDevice>()
  /** The last states of devices that are lost because their heartbeats stopped. */
  const silent = new Map<string, DeviceState>()
  /** Of these, the ones that have sent telemetry since. */
  const returned = new Set<string>()
  const samples = new Map<string, KeptSample>()
  const reader = new TelemetryReader(limits.telemetrySampleBytes)

  function lastTelemetry(device: string): LatestTelemetry | null {
    const sample = samples.get(device)
    if (!sample) return null
    const { base, difference, receivedMs } = sample
    const telemetry = difference === undefined ? base : (unpackSample(base, difference) as unknown as DeviceTelemetry)
    const { v: _, replayed: __, ...measured } = telemetry
    return { ageS: Math.round((clock.nowMs() - receivedMs) / 100) / 10, ...measured }
  }

  const recordOf = (stored: StoredDevice): DeviceRecord => {
    const seen = connected.get(stored.id)?.receivedAtMs
    const lastSeen = seen === undefined ? stored.lastSeen : isoOf(seen)
    return { ...stored, lastSeen, telemetry: lastTelemetry(stored.id) }
  }

  /** @returns whether the state replaces the one before */
  function putState(id: string, { state, birth, ...said }: DeviceState, lastSeenMs: number): boolean {
    const before = table.get(id)
    if (before && birth < before.birth && state === 'lost') return false
    table.put({
      ...{ id, state, birth, lastSeen: isoOf(lastSeenMs) },
      agent: said.agent ?? before?.agent ?? null,
      modelId: said.modelId ?? before?.modelId ?? null,
      // An agent of an earlier release may have taken the place of one that said it.
      computing: said.computing ?? (before?.birth === birth ? before.computing : null),
    })
    return true
  }

  /** A will is the broker's message: the device was seen before it. */
  function lastSeenMs(device: string, { state }: DeviceState, receivedAtMs: number): number {
    const before = table.get(device)
    return state === 'lost' && before ? (connected.get(device)?.receivedAtMs ?? Date.parse(before.lastSeen)) : receivedAtMs
  }

  /** Stores only some heartbeats: each costs a write. */
  function onHeartbeat(device: string, known: ConnectedDevice): void {
    known.receivedMs = clock.nowMs()
    known.receivedAtMs = Date.now()
    if (known.receivedMs - known.storedMs < storeEveryMs) return
    known.storedMs = known.receivedMs
    const stored = table.get(device)
    if (stored) table.put({ ...stored, lastSeen: isoOf(known.receivedAtMs) })
  }

  /** Telemetry counts as a heartbeat of the start that sent it, unless its state has ended. */
  function onSignOfLife(device: string, birth: number): void {
    const known = connected.get(device)
    if (known?.state.birth === birth) onHeartbeat(device, known)
    else if (silent.get(device)?.birth === birth) returned.add(device)
    if (known?.isUnproven && known.state.birth === birth) returned.add(device)
  }

  function takeReturned(): { device: string; state: DeviceState }[] {
    const devices = [...returned]
    returned.clear()
    return devices.flatMap((device) => {
      const known = silent.get(device) ?? connected.get(device)?.state
      const state = known && onNewState(device, known)
      return state ? [{ device, state }] : []
    })
  }

  /** Devices that have proven no identity may choose any number of ids: only so many are registered. */
  function mayRegister(device: string): boolean {
    if (table.get(device) || table.size < limits.unenrolledDevices || isEnrolled(device)) return true
    if (refusals.take('', clock.nowMs()))
      onUnreadable(device, 'state', `the bridge has its ${limits.unenrolledDevices} devices: others must be enrolled`)
    return false
  }

  /** @returns the state; undefined: a newer one is stored */
  function onNewState(device: string, state: DeviceState, isUnproven = false): DeviceState | undefined {
    const fields = { device, birth: state.birth, state: state.state }
    const [receivedAtMs, nowMs] = [Date.now(), clock.nowMs()]
    if (!putState(device, state, lastSeenMs(device, state, receivedAtMs))) {
      logger.info(fields, 'will of an earlier birth ignored')
      return undefined
    }
    logger.info(fields, 'device state')
    silent.delete(device)
    const received = { receivedMs: nowMs, receivedAtMs, storedMs: nowMs }
    if (isConnected(state.state)) connected.set(device, { state, ...received, ...(isUnproven && { isUnproven }) })
    else connected.delete(device)
    return state
  }

  const write = () => tryOrLog(logger, 'device states not stored', () => table.write())

  return {
    lastState: (device) => table.get(device),
    isRegistered: (device) => table.get(device) !== undefined,
    isUnproven: (device) => connected.get(device)?.isUnproven === true,
    get size() {
      return table.size
    },
    markAllLost() {
      for (const device of table.list()) if (isConnected(device.state)) table.put({ ...device, state: 'lost' })
    },
    onState(device, payload, isRetained = false) {
      // An empty payload deletes the retained state at the broker.
      if (payload.byteLength === 0) return undefined
      const read = readMessage(DeviceState, payload)
      if (read.kind === 'unreadable') {
        onUnreadable(device, 'state', read.reason)
        return undefined
      }
      const state = read.message
      const known = connected.get(device)
      const isNews = known?.isUnconfirmed || (known?.isUnproven && !isRetained)
      if (known && !isNews && isHeartbeat(known.state, state)) {
        stateLimit.drop(device)
        onHeartbeat(device, known)
        return undefined
      }
      if (!mayRegister(device)) return undefined
      if (stateLimit.admit(device, state)) return onNewState(device, state, isRetained)
      // The device is there, whatever its state.
      if (known) Object.assign(known, { receivedMs: clock.nowMs(), receivedAtMs: Date.now() })
      return undefined
    },
    takeDueStates: () => [
      ...stateLimit.takeDue().flatMap(([device, received]) => {
        const state = onNewState(device, received)
        return state ? [{ device, state }] : []
      }),
      ...takeReturned(),
    ],
    expireHeartbeats() {
      const nowMs = clock.nowMs()
      const expired = [...connected].filter(([, { state, receivedMs }]) =>
        hasMissedHeartbeats(receivedMs, state.heartbeatS, nowMs),
      )
      return expired.map(([device, known]) => {
        const state: DeviceState = { ...known.state, state: 'lost' }
        connected.delete(device)
        silent.set(device, known.state)
        logger.warn({ device, birth: state.birth, lastSeen: isoOf(known.receivedAtMs) }, 'device lost: its heartbeats stopped')
        putState(device, state, known.receivedAtMs)
        return { device, state }
      })
    },
    onBrokerLost() {
      const receivedMs = clock.nowMs()
      for (const known of connected.values()) Object.assign(known, { receivedMs, isUnconfirmed: true })
    },
    onTelemetry(device, payload) {
      const isRegistered = table.get(device) !== undefined
      const read = reader.read(device, payload, isRegistered)
      if (read.kind === 'unreadable') onUnreadable(device, 'telemetry', read.reason)
      if (!isRegistered) return undefined
      if (read.kind === 'baseless') onBaseless(device)
      if (read.kind !== 'message') return undefined
      const { telemetry, packed } = read.message
      if (telemetry.replayed !== true) {
        const { base, difference } = packed ?? { base: telemetry }
        samples.set(device, { base, difference, receivedMs: clock.nowMs() })
        onSignOfLife(device, telemetry.birth)
        onTelemetry(device)
      }
      return read.message
    },
    forgetExcept(known) {
      const forgotten = [...connected].filter(([device]) => !known(device))
      for (const device of [...table.ids()]) {
        if (known(device)) continue
        table.remove(device)
        reader.forget(device)
        silent.delete(device)
        stateLimit.drop(device)
      }
      write()
      for (const device of samples.keys()) if (!known(device)) samples.delete(device)
      for (const [device] of forgotten) connected.delete(device)
      return forgotten.map(([device, { state }]) => ({ device, state: { ...state, state: 'lost' } }))
    },
    device(id) {
      const stored = table.get(id)
      return stored && recordOf(stored)
    },
    ids: () => table.ids(),
    telemetryOf: lastTelemetry,
    counts: () => table.counts(),
    computing() {
      const counts: Record<string, number> = {}
      for (const device of connected.keys()) {
        const provider = providerInUse(table.get(device)?.computing ?? null)
        if (provider === null) continue
        // A device may say any name: each would be a series.
        const known = /^(?:cpu|webgpu|cuda)$/.test(provider) ? provider : 'other'
        counts[known] = (counts[known] ?? 0) + 1
      }
      return counts
    },
    write,
  }
}

/** The latest sample of a device. */
interface KeptSample {
  readonly base: DeviceTelemetry
  /** See packed-sample.ts; undefined: the sample is `base`. */
  readonly difference: string | undefined
  readonly receivedMs: number
}

interface ConnectedDevice {
  readonly state: DeviceState
  /** Of the last message: monotonic, and by the wall clock. */
  receivedMs: number
  receivedAtMs: number
  storedMs: number
  /** The bridge received no messages since, so the device may have reconnected. */
  isUnconfirmed?: true
  /** Its state is one that a broker had retained: the device has sent nothing since. */
  isUnproven?: true
}

/**
 * Whether the state differs from the last one in its time only. A device that reconnected is no heartbeat, because
 * messages to it may have been lost. A device that announces no connection may have reconnected.
 */
function isHeartbeat({ at: _, ...before }: DeviceState, { at: __, ...now }: DeviceState): boolean {
  return now.connection !== undefined && isDeepStrictEqual(before, now)
}
