import { LinkRates } from '../../../../core/policy/estimate/link-rates.ts'
import type { DeviceRates } from '../../../../core/policy/hat/chunk-advice.ts'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'

/** What a device has measured in its answers, and what the bridge knows of it. Mutable. */
export interface HatDevice {
  readonly device: SimulatedDevice
  readonly rates: LinkRates
  readonly speed: DeviceSpeed
  /** The rates that it has sent with a frame last. */
  reported: DeviceRates | undefined
  /** Those of them that have arrived. */
  known: DeviceRates | undefined
}

export function hatDevice(device: SimulatedDevice): HatDevice {
  const rates = new LinkRates()
  // Pings measure it before the first answer.
  rates.recordRoundTrip(device.link.rttMs / 1_000)
  return { device, rates, speed: new DeviceSpeed(), reported: undefined, known: undefined }
}
