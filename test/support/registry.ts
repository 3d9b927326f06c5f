import { createRegistry, type RegistryOptions } from '../../cloud-bridge/fleet/registry.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { silentLogger } from './silent-logger.ts'

/** The limits of a fleet that no test reaches by accident. */
export const fleetLimits = {
  deviceLogBytes: 256 * 1_024,
  deviceLogsBytes: 64 * 2 ** 20,
  deviceStatesPerMinute: 1_000,
  deviceTelemetryBytes: 64 * 2 ** 20,
  telemetrySampleBytes: 16 * 1_024,
  unenrolledDevices: 10_000,
}

/** A registry without enrolled devices, a log or a listener. */
export const openTestRegistry = (options: Pick<RegistryOptions, 'store'> & Partial<RegistryOptions>) =>
  createRegistry({
    isEnrolled: () => false,
    limits: fleetLimits,
    onUnreadable: () => {},
    onBaseless: () => {},
    clock: systemClock,
    logger: silentLogger(),
    ...options,
  })
