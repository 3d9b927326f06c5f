import type { AvailableDevice } from './assign-jobs.ts'

interface Entry {
  readonly kinds: readonly string[]
  freeSlots: number
}

/**
 * The devices that take jobs of a lane, found by kind and by free slots: each change and each choice costs the same, however
 * many devices there are.
 */
export class FreeDevices {
  readonly #maxJobs: number
  readonly #devices = new Map<string, Entry>()
  /** Of each kind, the devices with 1, 2, … free slots; first in a set is the device that has waited longest. */
  readonly #byKind = new Map<string, Set<string>[]>()

  /** @param maxJobs of the lane that one device may hold */
  constructor(maxJobs: number) {
    this.#maxJobs = maxJobs
  }

  /** @param load number of jobs of the lane that the device holds */
  put(device: string, kinds: readonly string[], load: number): void {
    this.remove(device)
    const entry = { kinds, freeSlots: this.#maxJobs - load }
    this.#devices.set(device, entry)
    for (const set of this.#setsOf(entry)) set.add(device)
  }

  remove(device: string): void {
    const entry = this.#devices.get(device)
    if (!entry) return
    for (const set of this.#setsOf(entry)) set.delete(device)
    this.#devices.delete(device)
  }

  clear(): void {
    this.#devices.clear()
    this.#byKind.clear()
  }

  /** The device holds this many jobs of the lane now. Devices that take no jobs are ignored. */
  setLoad(device: string, load: number): void {
    const entry = this.#devices.get(device)
    if (entry && entry.freeSlots !== this.#maxJobs - load) this.put(device, entry.kinds, load)
  }

  /** Undefined: it takes no jobs, or has no free slot. */
  get(device: string): AvailableDevice | undefined {
    const entry = this.#devices.get(device)
    return entry && entry.freeSlots > 0 ? { device, ...entry } : undefined
  }

  /** Up to `max` devices that support this kind, those with the most free slots first. */
  freest(kind: string, max: number): AvailableDevice[] {
    const found: AvailableDevice[] = []
    for (const set of this.#byKind.get(kind)?.toReversed() ?? [])
      for (const device of set) {
        if (found.length === max) return found
        found.push(this.get(device)!)
      }
    return found
  }

  /** Up to `max` devices of each kind that hold no job of the lane. */
  idle(max: number): AvailableDevice[] {
    const isIdle = ({ freeSlots }: AvailableDevice) => freeSlots === this.#maxJobs
    const found = [...this.#byKind.keys()].flatMap((kind) => this.freest(kind, max).filter(isIdle))
    return [...new Map(found.map((one) => [one.device, one])).values()]
  }

  /** None where the device has no free slot. */
  #setsOf({ kinds, freeSlots }: Entry): Set<string>[] {
    if (freeSlots <= 0) return []
    return kinds.map((kind) => {
      const sets = this.#byKind.get(kind) ?? Array.from({ length: this.#maxJobs }, () => new Set<string>())
      this.#byKind.set(kind, sets)
      return sets[freeSlots - 1]!
    })
  }
}
