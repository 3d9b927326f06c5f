import { type OpenFleet, openFleet } from '../fleet/open-fleet.ts'
import { createFaultReporter } from '../link/faults.ts'
import { type OpenExpansions, openExpansions } from '../pice/open-expansions.ts'
import { PresenceFeed } from '../presence/presence-feed.ts'
import { type OpenJobs, openJobs } from '../queue/open-jobs.ts'
import type { BridgeVariant } from '../variant.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'
import type { Stores } from './stores.ts'

export interface FleetWork {
  readonly jobs: OpenJobs
  readonly presence: PresenceFeed
  readonly devices: OpenFleet
  readonly expansions: OpenExpansions
}

/** The devices of the fleet, their jobs, and the sketches that they expand. */
export function openFleetWork(
  { config, clock, closers, logger, recording }: Base,
  { store, identityStore }: Stores,
  { downlink, announce }: Network,
  { sketches }: Pick<BridgeVariant, 'sketches'> = {},
): FleetWork {
  const bridge = config.id
  const { publish } = downlink
  const { onUnreadable, onBaseless } = createFaultReporter({
    bridge,
    publish: (device, message) => publish(device, 'faults', message),
    clock,
    logger: logger.child({ component: 'control' }),
  })
  const presence = new PresenceFeed(logger.child({ component: 'presence' }))
  const jobs = openJobs(config, { bridge, presence, clock, publish, onUnreadable, logger: logger.child({ component: 'jobs' }) })
  closers.push(jobs.close)
  const devices = openFleet({
    ...config,
    store,
    bridge,
    identities: identityStore,
    jobs: jobs.store,
    publish: (device, message) => publish(device, 'commands', message),
    onUnreadable,
    onBaseless,
    presence,
    onGrowth(size) {
      announce.onFleetSize(size)
      announce.trigger()
    },
    clock,
    wallMs: jobs.wallMs,
    logger,
  })
  closers.push(devices.close)
  announce.onFleetSize(devices.size)
  const expansions = openExpansions(config, {
    jobs,
    fleet: devices,
    presence,
    sketches,
    recording,
    clock,
    wallMs: jobs.wallMs,
    logger: logger.child({ component: 'pice' }),
  })
  closers.push(expansions.close)
  devices.followSmallModels(expansions.profiles.rubbishOf)
  return { jobs, presence, devices, expansions }
}
