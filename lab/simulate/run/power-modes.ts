import type { Random } from '../../../core/kit/base/random.ts'
import type { DeviceGroup } from '../scenario/scenario.ts'
import type { SimulatedDevice } from '../world/simulated-device.ts'

/** Draws the power mode of each device anew after so many of its requests, the first one included. Mutable. */
export class PowerModes {
  readonly #groups: ReadonlyMap<string, DeviceGroup>
  readonly #random: Random
  readonly #requests: Uint32Array

  constructor(groups: readonly DeviceGroup[], devices: number, random: Random) {
    this.#groups = new Map(groups.map((group) => [group.name, group]))
    this.#random = random
    this.#requests = new Uint32Array(devices)
  }

  /** A device is asked once more. */
  asked({ index, group, board, processor }: SimulatedDevice): void {
    const { powerModes, powerModeEvery } = this.#groups.get(group)!
    const speeds = powerModes === 'board' ? board.powerModes.map(({ speed }) => speed) : powerModes
    if (speeds.length === 1 && speeds[0] === 1) return
    if (this.#requests[index]! % powerModeEvery === 0)
      processor.slowdown = 1 / speeds[Math.floor(this.#random.next() * speeds.length)]!
    this.#requests[index]! += 1
  }
}
