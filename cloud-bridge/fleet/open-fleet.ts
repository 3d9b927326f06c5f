import { join } from 'node:path'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import type { ControlOptions } from '../link/control.ts'
import type { OnUnreadable } from '../link/faults.ts'
import type { JobStore } from '../queue/job-store.ts'
import { type Commands, commandsTable, createCommands } from './commands.ts'
import { DeviceLogs } from './device-logs.ts'
import { FleetFeed } from './feed.ts'
import { createFleet, type Fleet, type FleetOptions } from './fleet.ts'
import { createHistory, type History, historyTable } from './history.ts'
import { createLabels, type Labels, labelsTable } from './labels.ts'
import { createRegistry, devicesTable, type Registry } from './registry.ts'

/** Migrations of the bridge's database. */
export const fleetTables = [devicesTable, labelsTable, commandsTable]

const lookForSilentMs = 5_000

export interface OpenFleetOptions {
  /** Must have had `fleetTables`. */
  readonly store: Store
  readonly stateDir: string
  readonly bridge: string
  readonly telemetrySamples: number
  readonly identities: FleetOptions['identities']
  readonly jobs: JobStore
  /** Sends a command to a device, while the control plane is there. */
  readonly publish: (device: string, message: string) => void
  readonly onUnreadable: OnUnreadable
  /** A device has come, changed or gone. */
  readonly onDeviceState: (device: string, state: DeviceState) => void
  /** No device could be heard for some seconds. */
  readonly onBrokerLost: () => void
  readonly clock: Clock
  readonly logger: Logger
}

export interface OpenFleet {
  readonly fleet: Fleet
  readonly labels: Labels
  readonly commands: Commands
  readonly logs: DeviceLogs
  readonly history: History
  readonly feed: FleetFeed
  /** What the control plane brings. */
  readonly handlers: Pick<ControlOptions, 'onDeviceState' | 'onDeviceReply' | 'onDeviceLog' | 'onDeviceTelemetry'>
  readonly lastState: Registry['lastState']
  /** Nobody counts as present until heard of; commands that wait are sent. */
  start(): void
  /** From now on devices are called lost whose heartbeats have stopped, while this bridge could have heard them. */
  watchHeartbeats(isConnected: () => boolean): void
  close(): Promise<void>
}

/**
 * All that the bridge knows of its devices and tells them to do: registry, labels, telemetry, logs, commands.
 * @throws BrimError STORE_FAILED
 */
export function openFleet(options: OpenFleetOptions): OpenFleet {
  const {
    store,
    stateDir,
    bridge,
    telemetrySamples,
    identities,
    jobs,
    onUnreadable,
    onDeviceState: onDevice,
    onBrokerLost: onDeaf,
    clock,
  } = options
  const log = (component: string) => options.logger.child({ component })
  const feed = new FleetFeed()
  const registry = createRegistry(store, clock, log('registry'), onUnreadable, (device, what) => feed.publish(device, what))
  // Of its own: it may grow large, and none of it is worth a wait for the disk.
  const historyDatabase = openDatabase(join(stateDir, 'telemetry.sqlite'), [historyTable], 'NORMAL')
  const history = createHistory({
    store: historyDatabase,
    maxSamples: telemetrySamples,
    clock,
    wallMs: Date.now,
    logger: log('history'),
  })
  const commands = createCommands({
    store,
    bridge,
    clock,
    wallMs: Date.now,
    publish: options.publish,
    onChange: (device) => feed.publish(device, 'commands'),
    onUnreadable,
    logger: log('commands'),
  })
  const logs = new DeviceLogs(onUnreadable)
  const labels = createLabels(store)
  const fleet = createFleet({
    registry,
    labels,
    identities,
    jobs: { loads: () => jobs.loads(), heldBy: (device) => jobs.heldBy(device) },
    wallMs: Date.now,
  })
  const stopping = new AbortController()
  let watching: Promise<void> | undefined

  function deviceIs(device: string, said: DeviceState): void {
    onDevice(device, said)
    commands.setPresence(device, said.state === 'ready' || said.state === 'draining')
  }

  async function lookForSilent(isConnected: () => boolean): Promise<void> {
    const pause = () => clock.sleep(lookForSilentMs, stopping.signal).catch(() => {})
    for (await pause(); !stopping.signal.aborted; await pause()) {
      if (isConnected()) for (const { device, state } of registry.expireHeartbeats()) deviceIs(device, state)
      else {
        registry.onBrokerLost()
        onDeaf()
      }
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
      onDeviceState(device, payload) {
        const said = registry.onState(device, payload)
        if (said) deviceIs(device, said)
      },
      onDeviceReply: commands.onReply,
      onDeviceLog(device, payload) {
        if (logs.add(device, payload)) feed.publish(device, 'log')
      },
      onDeviceTelemetry(device, payload) {
        const telemetry = registry.onTelemetry(device, payload)
        if (telemetry) history.add(device, telemetry)
      },
    },
    lastState: registry.lastState,
    start() {
      registry.markAllLost()
      commands.start()
    },
    watchHeartbeats(isConnected) {
      watching ??= lookForSilent(isConnected)
    },
    async close() {
      stopping.abort()
      await watching
      await commands.close()
      await history.close()
      historyDatabase.close()
    },
  }
}
