import type { Alike, FleetDevice } from './fleet-device.ts'
import type { ExpandingDevice } from './state.ts'

/** The devices whose speed is known, at one time. */
export interface FleetSnapshot {
  /** Those without sketches that are alike are one entry. In order of appearance. */
  readonly devices: readonly ExpandingDevice[]
  /** The entry that stands for a device; undefined: its speed is unknown. */
  entryOf(device: FleetDevice): ExpandingDevice | undefined
}

/** The able devices of a fleet: sorted, and alike ones together, so that no plan looks at each of thousands. Mutable. */
export class AbleDevices {
  /** Jobs that one device may have. */
  readonly #maxJobs: number
  readonly #all = new Set<FleetDevice>()
  /** Those that take a job now: the fastest first, then in order of appearance. */
  readonly #free: FleetDevice[] = []
  readonly #alike = new Map<string, Alike>()
  /** Those with jobs whose speed is known. */
  readonly #busy = new Set<FleetDevice>()

  constructor(maxJobs: number) {
    this.#maxJobs = maxJobs
  }

  get all(): Iterable<FleetDevice> {
    return this.#all
  }

  /** Number of those whose speed is not known. */
  get unmeasured(): number {
    let count = 0
    for (const { known } of this.#all) if (!known) count += 1
    return count
  }

  get free(): readonly FleetDevice[] {
    return this.#free
  }

  insert(device: FleetDevice): void {
    this.#all.add(device)
    if (Math.max(device.jobs.size, device.held) < this.#maxJobs) insertInto(this.#free, device, fasterFirst)
    if (!device.known) return
    if (device.jobs.size > 0) {
      this.#busy.add(device)
      return
    }
    const { speeds, known, abilities, rubbish } = device
    device.key ??= JSON.stringify([speeds, known.current, known.networkS, [...abilities], [...rubbish]])
    const { key } = device
    const alike = this.#alike.get(key) ?? { key, devices: [] }
    this.#alike.set(key, alike)
    device.alike = alike
    insertInto(alike.devices, device, inOrder)
  }

  remove(device: FleetDevice): void {
    if (!this.#all.delete(device)) return
    takeFrom(this.#free, device, fasterFirst)
    this.#busy.delete(device)
    const { alike } = device
    if (!alike) return
    device.alike = undefined
    takeFrom(alike.devices, device, inOrder)
    if (alike.devices.length === 0) this.#alike.delete(alike.key)
  }

  snapshot(nowMs: number): FleetSnapshot {
    const entries = new Map<FleetDevice | Alike, ExpandingDevice>()
    const ordered: (readonly [order: number, entry: ExpandingDevice])[] = []
    for (const alike of this.#alike.values()) {
      const [first] = alike.devices as [FleetDevice, ...FleetDevice[]]
      const count = alike.devices.length
      const entry = count === 1 ? first.known! : { ...first.known!, count }
      entries.set(alike, entry)
      ordered.push([first.order, entry])
    }
    for (const device of this.#busy) {
      const entry = { ...device.known!, busyS: device.busyS(nowMs) }
      entries.set(device, entry)
      ordered.push([device.order, entry])
    }
    return {
      devices: ordered.sort(([a], [b]) => a - b).map(([, entry]) => entry),
      entryOf: (device) => entries.get(device.alike ?? device),
    }
  }
}

type Compare = (a: FleetDevice, b: FleetDevice) => number

const inOrder: Compare = (a, b) => a.order - b.order

/** Those of unknown speed are last. */
const tpotS = ({ known }: FleetDevice): number => known?.models[0]?.tpotS ?? Number.MAX_VALUE

const fasterFirst: Compare = (a, b) => tpotS(a) - tpotS(b) || inOrder(a, b)

/** The first place whose device does not come before this one. */
function placeIn(sorted: readonly FleetDevice[], device: FleetDevice, compare: Compare): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(sorted[middle]!, device) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function insertInto(sorted: FleetDevice[], device: FleetDevice, compare: Compare): void {
  sorted.splice(placeIn(sorted, device, compare), 0, device)
}

function takeFrom(sorted: FleetDevice[], device: FleetDevice, compare: Compare): void {
  const at = placeIn(sorted, device, compare)
  if (sorted[at] === device) sorted.splice(at, 1)
}
