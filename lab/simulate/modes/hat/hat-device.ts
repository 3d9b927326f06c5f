import { LinkRates } from '../../../../core/policy/estimate/link-rates.ts'
import { type DeviceRates, RateReports } from '../../../../core/policy/hat/chunk-advice.ts'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'

/** What a device has measured in its answers, and what the bridge knows of it. Mutable. */
export class HatDevice {
  readonly device: SimulatedDevice
  readonly rates: LinkRates
  readonly speed = new DeviceSpeed()
  /** The rates whose report has arrived at the bridge. */
  known: DeviceRates | undefined
  readonly #reports = new RateReports()

  constructor(device: SimulatedDevice) {
    this.device = device
    const ping = () => this.rates.recordRoundTrip(device.link.rttMs / 1_000)
    this.rates = new LinkRates(ping)
    // Pings measure it before the first answer.
    ping()
  }

  /** Reports rates that have moved. @returns those that the bridge has with the next frame */
  report(): DeviceRates | undefined {
    this.#reports.due(this.rates.upBytesPerS, this.speed.prefillTokensPerS)
    return this.#reports.reported
  }
}
