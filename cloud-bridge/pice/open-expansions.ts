import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { batchByLength, writtenPerDevice } from '../../core/policy/pice/dispatch-rules.ts'
import { ExpansionScheduler, type RecordedExpansionSettings } from '../../core/policy/pice/expansion-scheduler.ts'
import type { Recording } from '../../core/policy/recording.ts'
import { maxInputBytes } from '../../core/wire/protocol/jobs.ts'
import type { BridgeConfig } from '../config.ts'
import type { OpenFleet } from '../fleet/open-fleet.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { SketchVariant } from '../variant.ts'
import { DeviceProfiles } from './device-profiles.ts'
import { ExpansionLog } from './expansion-log.ts'
import { FleetExpander } from './fleet-expander.ts'
import { LengthMemory } from './length-memory.ts'
import { openPiceStore } from './pice-store.ts'

export interface OpenExpansionsOptions {
  readonly jobs: { readonly queue: JobQueue; readonly store: JobStore }
  readonly fleet: Pick<OpenFleet, 'telemetryOf'>
  readonly presence: PresenceFeed
  /** Undefined: nothing is recorded. */
  readonly recording?: Recording | undefined
  readonly clock: Clock
  /** UTC ms. */
  readonly wallMs: () => number
  readonly logger: Logger
  /** In the place of PICE's scheduling. */
  readonly sketches?: SketchVariant | undefined
}

export interface OpenExpansions {
  readonly expander: FleetExpander
  readonly profiles: DeviceProfiles
  readonly lengths: LengthMemory
  close(): Promise<void>
}

/** The expansion of sketches on the fleet, with the profiles of its devices. @throws BrimError STORE_FAILED */
export function openExpansions(
  { stateDir, limits, answerMode }: Pick<BridgeConfig, 'stateDir' | 'limits' | 'answerMode'>,
  options: OpenExpansionsOptions,
): OpenExpansions {
  const { jobs, fleet, presence, recording, clock, wallMs, logger, sketches } = options
  const store = openPiceStore(stateDir, logger)
  const profiles = new DeviceProfiles(store, wallMs)
  const settings: RecordedExpansionSettings = {
    policy: sketches?.policy ?? 'dynamic',
    expansionsPerJob: limits.expansionsPerJob,
    jobsPerDevice: limits.expansionJobsPerDevice,
    waitingPerDevice: writtenPerDevice(limits.waitingExpansionsPerDevice),
    attempts: limits.expansionAttempts,
    maxJobBytes: maxInputBytes,
    deviceWaitMs: 1_000 * limits.expansionDeviceWaitS,
    graceMs: 1_000 * limits.answerGraceS,
    expectsPlans: answerMode !== 'full',
    startedMs: clock.nowMs(),
  }
  const scheduler = new ExpansionScheduler((sketches?.batches ?? batchByLength)(limits.expansionsPerJob), settings)
  const expander = new FleetExpander({
    queue: jobs.queue,
    jobs: jobs.store,
    scheduler: recording?.of('expansion-scheduler', settings, scheduler) ?? scheduler,
    view: (nowMs) => scheduler.view(nowMs),
    telemetryOf: fleet.telemetryOf,
    profiles,
    log: new ExpansionLog(store),
    limits,
    clock,
    wallMs,
    logger,
  })
  const unsubscribe = presence.subscribe((event) => expander.onPresence(event))
  jobs.queue.onSucceeded('profile', (device, result) => expander.onProfile(device, result))
  return {
    expander,
    profiles,
    lengths: new LengthMemory(store, logger),
    async close() {
      unsubscribe()
      await expander.close()
      store.close()
    },
  }
}
