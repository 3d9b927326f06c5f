import { join } from 'node:path'
import { readBridgeConfig } from '../../cloud-bridge/config.ts'
import { connectControl } from '../../cloud-bridge/link/control.ts'
import { openAccess } from '../../cloud-bridge/parts/access.ts'
import { openBase } from '../../cloud-bridge/parts/base.ts'
import { openControlBroker } from '../../cloud-bridge/parts/broker.ts'
import { openNetwork } from '../../cloud-bridge/parts/network.ts'
import { openStores } from '../../cloud-bridge/parts/stores.ts'
import { openFleetWork } from '../../cloud-bridge/parts/work.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { createClosers } from '../../core/kit/base/closers.ts'
import { noModelId } from '../../core/wire/protocol/messages.ts'

/** The parts of a bridge that expand sketches: broker, fleet, queue and scheduler, without models and without HTTP. */
export async function startExpandingBridge(dir: string) {
  const closers = createClosers()
  const config = readBridgeConfig({
    stateDir: join(dir, 'bridge'),
    mqttPort: 0,
    logLevel: 'silent',
    upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' },
  })
  const base = await openBase(config, systemClock, closers)
  const network = openNetwork(base)
  const stores = openStores(base)
  const work = openFleetWork(base, stores, network)
  const access = openAccess(base, stores)
  const broker = await openControlBroker(base, network, stores, work, access)
  work.devices.start()
  work.jobs.queue.start()
  const control = await connectControl({
    url: broker.url!,
    openStream: broker.openStream,
    login: { password: access.grants.ownToken },
    fleet: config.fleet,
    bridge: config.id,
    birth: stores.birth,
    describe: () => ({ modelId: noModelId, data: 'ws://127.0.0.1:9/v1/data', sessions: 0, devices: work.devices.size }),
    accepts: () => true,
    ...work.devices.handlers,
    onJobEvent: work.jobs.queue.onJobEvent,
    clock: systemClock,
    logger: base.logger,
  })
  closers.push(control.close)
  network.downlink.attach(control)
  return {
    mqttUrl: broker.url!,
    expander: work.expansions.expander,
    profiles: work.expansions.profiles,
    jobs: work.jobs,
    [Symbol.asyncDispose]: closers.closeAll,
  }
}
