import type { Clock } from '../../core/kit/base/clock.ts'
import { KeyedFeed } from '../../core/kit/base/keyed-feed.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import type { BridgeConfig } from '../config.ts'
import type { OnUnreadable } from '../link/faults.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'
import type { JobStore } from '../queue/job-store.ts'
import { type Commands, commandsTable, createCommands } from './commands.ts'
import { DeviceLogs } from './device-logs.ts'
import { devicesComputing, devicesTable } from './device-table.ts'
import { createFleet, type Fleet, type FleetOptions } from './fleet.ts'
import { createHistory, type History, openHistoryDatabase } from './history.ts'
import { IdConflicts } from './id-conflicts.ts'
import { createLabels, type DeviceLabels, labelsTable } from './labels.ts'
import { createRegistry, type Registry, type RegistryOptions } from './registry.ts'

/** Migrations of the bridge's database. */
export const fleetTables = [devicesTable, labelsTable, commandsTable]
/** Later ones. */
export const addedFleetTables = [devicesComputing]

/** Interval of the checks for missed heartbeats. */
const checkMs = 5_000
/** Interval of the checks for states that came too often to count at once, and of the writes of states. */
const dueStatesMs = 1_000

export interface OpenFleetOptions {
  /** Must have `fleetTables` and `addedFleetTables`. */
  readonly store: Store
  readonly stateDir: string
  readonly bridge: string
  readonly telemetrySamples: number
  readonly limits: Pick<
    BridgeConfig['limits'],
    | 'deviceLogBytes'
    | 'deviceLogsBytes'
    | 'deviceStatesPerMinute'
    | 'deviceTelemetryBytes'
    | 'telemetrySampleBytes'
    | 'unenrolledDevices'
  >
  readonly identities: FleetOptions['identities']
  readonly jobs: JobStore
  /** Publishes a command to a device while the broker is connected. */
  readonly publish: (device: string, message: string) => void
  readonly onUnreadable: OnUnreadable
  readonly onBaseless: RegistryOptions['onBaseless']
  /** Gets every new state of a device, and the losses. */
  readonly presence: PresenceFeed
  /** The number of devices has doubled since the last call, or since the start. */
  readonly onGrowth?: (devices: number) => void
  readonly clock: Clock
  /** UTC ms, for what expires. */
  readonly wallMs: () => number
  readonly logger: Logger
}

/** What changed in a device's record. */
type FleetChange = 'state' | 'telemetry' | 'labels' | 'commands' | 'log'

export interface OpenFleet {
  readonly fleet: Fleet
  readonly labels: DeviceLabels
  readonly commands: Commands
  readonly logs: DeviceLogs
  readonly history: History
  /** What changes, by device. */
  readonly feed: KeyedFeed<FleetChange>
  /** Of the devices' messages. */
  readonly handlers: Readonly<
    Record<'onDeviceReply' | 'onDeviceLog' | 'onDeviceTelemetry', (device: string, payload: Uint8Array) => void> & {
      onDeviceState: (device: string, payload: Uint8Array, isRetained?: boolean) => void
    }
  >
  readonly lastState: Registry['lastState']
  readonly counts: Registry['counts']
  readonly computing: Registry['computing']
  readonly telemetryOf: Registry['telemetryOf']
  /** Number of devices that have published a state. */
  readonly size: number
  /** A second device wants to connect under the id of a connected one. @param address of the second device */
  onIdConflict(device: string, address: string): void
  /**
   * Counts every device as lost until it publishes its state, and starts to send pending commands.
   * @param known the states of other devices are deleted
   */
  start(known?: (device: string) => boolean): void
  /** Deletes what devices reported that are not `known`, and counts them as lost. */
  forgetExcept(known: (device: string) => boolean): void
  /** Deletes everything that is known of a device, except the commands sent to it. */
  forget(device: string): void
  /** Which small models of a device write no expansions, for its problems. */
  followSmallModels(rubbish: (device: string) => readonly string[]): void
  /** Marks devices as lost whose heartbeats stop while the broker is connected. */
  watchHeartbeats(isConnected: () => boolean): void
  close(): Promise<void>
}

/**
 * Opens the fleet: registry, labels, telemetry, logs and remote commands of the devices.
 * @throws BrimError STORE_FAILED
 */
export function openFleet(options: OpenFleetOptions): OpenFleet {
  const { store, stateDir, bridge, telemetrySamples, limits, identities, jobs, onUnreadable, onBaseless, clock, wallMs } = options
  const { presence } = options
  const log = (component: string) => options.logger.child({ component })
  const feed = new KeyedFeed<FleetChange>()
  const registry = createRegistry({
    store,
    isEnrolled: (device) => identities.device(device) !== undefined,
    limits,
    onUnreadable,
    onBaseless,
    onTelemetry: (device) => feed.publish(device, 'telemetry'),
    clock,
    logger: log('registry'),
  })
  const historyDatabase = openHistoryDatabase(stateDir, log('history'))
  const history = createHistory({
    store: historyDatabase,
    maxSamples: telemetrySamples,
    maxDeviceBytes: limits.deviceTelemetryBytes,
    clock,
    wallMs: Date.now,
    logger: log('history'),
  })
  const commands = createCommands({
    store,
    bridge,
    presence,
    clock,
    wallMs,
    publish: options.publish,
    onChange: (device) => feed.publish(device, 'commands'),
    onUnreadable,
    logger: log('commands'),
  })
  const logs = new DeviceLogs(
    { deviceBytes: limits.deviceLogBytes, totalBytes: limits.deviceLogsBytes },
    registry.isRegistered,
    onUnreadable,
  )
  const labels = createLabels(store)
  const conflicts = new IdConflicts(clock)
  const otherAt = (device: string) => conflicts.addressOf(device)
  let rubbishOf: NonNullable<FleetOptions['rubbishOf']> = () => []
  const asked = { otherAt, rubbishOf: (device: string) => rubbishOf(device) }
  const fleet = createFleet({ registry, labels, identities, jobs, ...asked, wallMs: Date.now })
  let stopChecking: (() => Promise<void>) | undefined
  const stopTakingStates = repeatEvery(clock, dueStatesMs, () => {
    for (const { device, state } of registry.takeDueStates()) onNewState(device, state)
    registry.write()
  })

  const unsubscribe = presence.subscribe((event) => {
    if (event.kind === 'state') feed.publish(event.device, 'state')
  })

  let announcedSize = registry.size
  function onNewState(device: string, state: DeviceState): void {
    if (registry.size >= 2 * announcedSize) {
      announcedSize = registry.size
      options.onGrowth?.(announcedSize)
    }
    presence.publish({ kind: 'state', device, state, ...(registry.isUnproven(device) && { isUnproven: true }) })
  }

  function checkHeartbeats(isBrokerConnected: boolean): void {
    if (isBrokerConnected) for (const { device, state } of registry.expireHeartbeats()) onNewState(device, state)
    else {
      registry.onBrokerLost()
      presence.publish({ kind: 'broker lost' })
    }
  }

  return {
    fleet,
    labels,
    commands,
    logs,
    history,
    feed,
    handlers: {
      onDeviceState(device, payload, isRetained) {
        const state = registry.onState(device, payload, isRetained)
        if (state) onNewState(device, state)
      },
      onDeviceReply: commands.onReply,
      onDeviceLog(device, payload) {
        if (logs.add(device, payload)) feed.publish(device, 'log')
      },
      onDeviceTelemetry(device, payload) {
        const sample = registry.onTelemetry(device, payload)
        if (sample) history.add(device, sample)
      },
    },
    lastState: registry.lastState,
    onIdConflict(device, address) {
      conflicts.add(device, address)
      feed.publish(device, 'state')
    },
    get size() {
      return registry.size
    },
    counts: registry.counts,
    computing: registry.computing,
    telemetryOf: registry.telemetryOf,
    start(known = () => true) {
      registry.forgetExcept(known)
      registry.markAllLost()
      commands.start()
    },
    forgetExcept(known) {
      for (const { device, state } of registry.forgetExcept(known)) onNewState(device, state)
      history.forgetExcept(known)
      logs.forgetExcept(known)
    },
    forget(device) {
      const isOther = (id: string) => id !== device
      for (const lost of registry.forgetExcept(isOther)) onNewState(lost.device, lost.state)
      history.forgetExcept(isOther)
      logs.forgetExcept(isOther)
      labels.removeAll(device)
      feed.publish(device, 'state')
    },
    followSmallModels(rubbish) {
      rubbishOf = rubbish
    },
    watchHeartbeats(isConnected) {
      stopChecking ??= repeatEvery(clock, checkMs, () => checkHeartbeats(isConnected()))
    },
    async close() {
      unsubscribe()
      await stopChecking?.()
      await stopTakingStates()
      registry.write()
      await commands.close()
      await history.close()
      historyDatabase.close()
    },
  }
}
