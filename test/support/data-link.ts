import { DataLink, type DataLinkOptions } from '../../agent/link/data-link.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { memoryDisclosures } from '../../lab/bench/hat/memory-disclosures.ts'
import { silentLogger } from './silent-logger.ts'

/** A device's link to the data plane at `url`, which reconnects without delay. */
export function dataLinkTo(url: string, options: Partial<DataLinkOptions> = {}): DataLink {
  const link = new DataLink({
    device: 'jetson-01',
    birth: 1,
    reconnectMaxS: 30,
    speed: new DeviceSpeed(),
    disclosures: memoryDisclosures(silentLogger()),
    clock: systemClock,
    random: { next: () => 0 },
    logger: silentLogger(),
    ...options,
  })
  link.connectTo(url)
  return link
}
