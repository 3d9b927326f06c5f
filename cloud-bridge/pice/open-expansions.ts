import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { dispatchRule } from '../../core/policy/pice/dispatch-rules.ts'
import type { BridgeConfig } from '../config.ts'
import type { OpenFleet } from '../fleet/open-fleet.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import { DeviceProfiles } from './device-profiles.ts'
import { ExpandingDevices } from './expanding-devices.ts'
import { ExpansionLog } from './expansion-log.ts'
import { LengthMemory } from './length-memory.ts'
import { openPiceStore } from './pice-store.ts'
import { Scheduler } from './scheduler.ts'

export interface OpenExpansionsOptions {
  readonly jobs: { readonly queue: JobQueue; readonly store: JobStore }
  readonly fleet: Pick<OpenFleet, 'telemetryOf'>
  readonly clock: Clock
  /** UTC ms. */
  readonly wallMs: () => number
  readonly logger: Logger
}

/** The expansion of sketches on the fleet, with the profiles of its devices. @throws BrimError STORE_FAILED */
export function openExpansions(
  { stateDir, limits, sketchPolicy, answerMode }: Pick<BridgeConfig, 'stateDir' | 'limits' | 'sketchPolicy' | 'answerMode'>,
  options: OpenExpansionsOptions,
) {
  const { jobs, fleet, clock, wallMs, logger } = options
  const store = openPiceStore(stateDir, logger)
  const profiles = new DeviceProfiles(store, wallMs)
  const scheduler = new Scheduler({
    queue: jobs.queue,
    jobs: jobs.store,
    devices: new ExpandingDevices(fleet.telemetryOf),
    profiles,
    log: new ExpansionLog(store),
    rule: dispatchRule(sketchPolicy, limits.expansionsPerJob),
    expectsPlans: answerMode !== 'full',
    limits,
    clock,
    wallMs,
    logger,
  })
  jobs.queue.onSucceeded('profile', (device, result) => scheduler.onProfile(device, result))
  return {
    expander: scheduler,
    profiles,
    lengths: new LengthMemory(store, logger),
    onDeviceState: scheduler.onDeviceState,
    onBrokerLost: scheduler.onBrokerLost,
    async close() {
      await scheduler.close()
      store.close()
    },
  }
}
export type OpenExpansions = ReturnType<typeof openExpansions>
