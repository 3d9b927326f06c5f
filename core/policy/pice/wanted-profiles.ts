import type { FleetDevice } from './fleet-device.ts'

/** Minimum time between two requests for a profile to one device. */
export const profileEveryMs = 10 * 60_000

/** Devices whose small models are to be measured. Mutable. */
export class WantedProfiles {
  readonly #devices = new Set<FleetDevice>()

  get isEmpty(): boolean {
    return this.#devices.size === 0
  }

  add(device: FleetDevice, nowMs: number): void {
    if (device.presence?.canProfile && nowMs - device.profileAskedMs >= profileEveryMs) this.#devices.add(device)
  }

  /** Those that have nothing else to do are asked. */
  *take(free: Iterable<FleetDevice>, nowMs: number): Generator<FleetDevice, void> {
    if (this.isEmpty) return
    for (const device of free) {
      if (!this.#devices.delete(device)) continue
      device.profileAskedMs = nowMs
      yield device
    }
  }
}
