import type { Random } from '../../../core/kit/base/random.ts'

/** Chooses which device asks. Mutable. */
export class Askers {
  readonly #random: Random
  readonly #prefersIdle: boolean
  /** Requests of each device that are under way, by its index. */
  readonly #underWay = new Map<number, number>()

  /** @param prefersIdle a device without a request under way asks, while there is one; else the one with the fewest */
  constructor(random: Random, prefersIdle: boolean) {
    this.#random = random
    this.#prefersIdle = prefersIdle
  }

  /** @param devices indices of those that may ask, at least one */
  next(devices: readonly number[]): number {
    const start = Math.floor(this.#random.next() * devices.length)
    if (!this.#prefersIdle) return devices[start]!
    let chosen = devices[start]!
    for (let at = 1; at < devices.length && this.#countOf(chosen) > 0; at += 1) {
      const other = devices[(start + at) % devices.length]!
      if (this.#countOf(other) < this.#countOf(chosen)) chosen = other
    }
    this.#underWay.set(chosen, this.#countOf(chosen) + 1)
    return chosen
  }

  /** A request of the device is over. */
  ended(device: number): void {
    if (this.#prefersIdle) this.#underWay.set(device, this.#countOf(device) - 1)
  }

  #countOf(device: number): number {
    return this.#underWay.get(device) ?? 0
  }
}
