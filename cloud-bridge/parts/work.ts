import { openFleet } from '../fleet/open-fleet.ts'
import { createFaultReporter } from '../link/faults.ts'
import { openExpansions } from '../pice/open-expansions.ts'
import { openJobs } from '../queue/open-jobs.ts'
import type { Base } from './base.ts'
import type { Stores } from './stores.ts'

/** The devices of the fleet, their jobs, and the sketches that they expand. */
export function openWork(
  { config, clock, closers, logger, log, downlink, announce, recording }: Base,
  { store, identityStore }: Stores,
) {
  const bridge = config.id
  const { publish } = downlink
  const { onUnreadable, onBaseless } = createFaultReporter({
    bridge,
    publish: (device, message) => publish(device, 'faults', message),
    clock,
    logger: log('control'),
  })
  const jobs = openJobs(config, { bridge, clock, publish, onUnreadable, logger: log('jobs') })
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
    onDeviceState(device, state) {
      jobs.queue.onDeviceState(device, state)
      expansions.onDeviceState(device, state)
    },
    onGrowth(size) {
      announce.onFleetSize(size)
      announce.trigger()
    },
    onBrokerLost() {
      jobs.queue.onBrokerLost()
      expansions.onBrokerLost()
    },
    clock,
    wallMs: jobs.wallMs,
    logger,
  })
  closers.push(devices.close)
  announce.onFleetSize(devices.size)
  const expansions = openExpansions(config, { jobs, fleet: devices, recording, clock, wallMs: jobs.wallMs, logger: log('pice') })
  closers.push(expansions.close)
  return { jobs, devices, expansions }
}
export type Work = ReturnType<typeof openWork>
