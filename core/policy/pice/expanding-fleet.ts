import { Ewma } from '../estimate/ewma.ts'
import { type Ability, abilityOf, knownUntilMs } from './ability.ts'
import type { ExpandingDevice, SmallModelSpeed } from './state.ts'

/** After a failure a device gets no sketches for this long, twice as long after each further one in a row. */
const restMs = { base: 1_000, max: 60_000 }

/** A device that is connected and expands sketches. */
export interface DevicePresence {
  /** False: it finishes what it has. */
  readonly takesJobs: boolean
  readonly canProfile: boolean
}

/** What is known of a device before it has expanded anything. */
export interface DeviceHints {
  /** Name of the small model that is open. */
  readonly current?: string | undefined
  /** Δ(r), by the rates of its link. */
  readonly networkS: number
}

/** A job that a device has been given. */
export interface DeviceJob {
  /** Predicted time until the device has finished it. */
  busyS(nowMs: number): number
}

/** A device of the fleet, and what the bridge knows of it. Mutable: `ExpandingFleet` changes it. */
export class FleetDevice {
  readonly name: string
  /** Of its first appearance. */
  readonly order: number
  readonly jobs = new Set<DeviceJob>()
  presence: DevicePresence | undefined
  hints: DeviceHints = { networkS: 0 }
  /** As measured, and corrected since; in the order of its profile. Undefined: it has no profile. */
  speeds: readonly SmallModelSpeed[] | undefined
  /** That it used last. */
  current: string | undefined
  /** Time in which it has accepted sketches, in seconds. */
  readonly acceptS = new Ewma()
  /** Since it last expanded something. */
  failures = 0
  restUntilMs = Number.NEGATIVE_INFINITY
  isResting = false
  /** It has stored as much as it may today. */
  isExhausted = false
  /** Jobs of any kind that the queue has given it. */
  held = 0
  /** As it is without a job. */
  known: ExpandingDevice | undefined
  /** What tells it from others: abilities are the same for all. */
  key: string | undefined
  alike: Alike | undefined

  constructor(name: string, order: number) {
    this.name = name
    this.order = order
  }

  get takesJobs(): boolean {
    return this.presence?.takesJobs ?? false
  }

  /** Takes expansions, now or once it has finished others. */
  get isAble(): boolean {
    return this.takesJobs && !this.isResting && !this.isExhausted
  }

  busyS(nowMs: number): number {
    let sum = 0
    for (const job of this.jobs) sum += job.busyS(nowMs)
    return sum
  }
}

/** Devices without sketches that do not differ in anything that plans depend on. */
interface Alike {
  readonly key: string
  /** In order of appearance. */
  readonly devices: FleetDevice[]
}

/** The devices whose speed is known, at one time. */
export interface FleetSnapshot {
  /** Those without sketches that are alike are one entry. In order of appearance. */
  readonly devices: readonly ExpandingDevice[]
  /** The entry that stands for a device; undefined: its speed is unknown. */
  entryOf(device: FleetDevice): ExpandingDevice | undefined
}

/**
 * The devices that expand sketches: which are connected, how fast they are, which rest after a failure. Sorted, and alike ones together, so
 * that no plan looks at each of thousands. Mutable.
 */
export class ExpandingFleet {
  /** Jobs that one device may have. */
  readonly #maxJobs: number
  readonly #devices = new Map<string, FleetDevice>()
  readonly #abilities = new Map<string, Ability>()
  /** Of those that count, and until when all of them do. */
  #confidences: ReadonlyMap<string, number> = new Map()
  #abilitiesUntilMs = Number.POSITIVE_INFINITY
  #haveAbilitiesChanged = false
  readonly #resting = new Set<FleetDevice>()
  /** Devices with `held` or `isExhausted`. */
  #limited = new Set<FleetDevice>()
  readonly #able = new Set<FleetDevice>()
  /** Of the able ones, those that take a job now: the fastest first, then in order of appearance. */
  readonly #free: FleetDevice[] = []
  readonly #alike = new Map<string, Alike>()
  /** Able ones with jobs whose speed is known. */
  readonly #busy = new Set<FleetDevice>()
  #size = 0

  constructor(maxJobs: number) {
    this.#maxJobs = maxJobs
  }

  /** That take jobs, those that rest included. */
  get size(): number {
    return this.#size
  }

  get able(): Iterable<FleetDevice> {
    return this.#able
  }

  get free(): readonly FleetDevice[] {
    return this.#free
  }

  get present(): FleetDevice[] {
    return [...this.#devices.values()].filter(({ presence }) => presence !== undefined)
  }

  /** When the next device has rested; undefined: none rests. */
  get restedMs(): number | undefined {
    let firstMs: number | undefined
    for (const { restUntilMs } of this.#resting) firstMs = Math.min(firstMs ?? restUntilMs, restUntilMs)
    return firstMs
  }

  of(name: string): FleetDevice {
    const known = this.#devices.get(name)
    if (known) return known
    const device = new FleetDevice(name, this.#devices.size)
    this.#devices.set(name, device)
    return device
  }

  /** @param presence undefined: it is not connected, or expands no sketches */
  setPresence(device: FleetDevice, presence: DevicePresence | undefined): void {
    this.#update(device, () => {
      const [before, after] = [device.takesJobs, presence?.takesJobs ?? false]
      this.#size += Number(after) - Number(before)
      device.presence = presence
    })
  }

  hint(device: FleetDevice, hints: DeviceHints): void {
    if (hints.current === device.hints.current && hints.networkS === device.hints.networkS) return
    this.#redescribe(device, () => {
      device.hints = hints
    })
  }

  measured(device: FleetDevice, speeds: readonly SmallModelSpeed[] | undefined): void {
    this.#redescribe(device, () => {
      device.speeds = speeds
    })
  }

  judged(model: string, ability: Ability): void {
    this.#abilities.set(model, ability)
    this.#haveAbilitiesChanged = true
  }

  /** @param seconds from the submission of a job until its acceptance was known */
  accepted(device: FleetDevice, seconds: number): void {
    this.#redescribe(device, () => device.acceptS.record(seconds))
  }

  /** @param model that it used last */
  succeeded(device: FleetDevice, model: string | undefined): void {
    this.#redescribe(device, () => {
      device.failures = 0
      this.#wake(device)
      device.current = model ?? device.current
    })
  }

  failed(device: FleetDevice, nowMs: number): void {
    this.#update(device, () => {
      device.failures += 1
      device.restUntilMs = nowMs + Math.min(restMs.max, restMs.base * 2 ** (device.failures - 1))
      device.isResting = true
      this.#resting.add(device)
    })
  }

  /** What the queue tells of devices; those that are not named hold nothing. */
  limit(held: readonly (readonly [device: string, jobs: number])[], exhausted: readonly string[]): void {
    if (held.length === 0 && exhausted.length === 0 && this.#limited.size === 0) return
    const jobs = new Map(held)
    const spent = new Set(exhausted)
    const limited = new Set([...jobs.keys(), ...spent].map((name) => this.of(name)))
    for (const device of new Set([...this.#limited, ...limited])) {
      const [own, isExhausted] = [jobs.get(device.name) ?? 0, spent.has(device.name)]
      if (device.held === own && device.isExhausted === isExhausted) continue
      this.#update(device, () => {
        device.held = own
        device.isExhausted = isExhausted
      })
    }
    this.#limited = limited
  }

  addJob(device: FleetDevice, job: DeviceJob): void {
    this.#update(device, () => device.jobs.add(job))
  }

  removeJob(device: FleetDevice, job: DeviceJob): void {
    this.#update(device, () => device.jobs.delete(job))
  }

  /** Devices that have rested, and abilities that count no more. Call it before anything is chosen. */
  refresh(nowMs: number): void {
    for (const device of this.#resting) if (device.restUntilMs <= nowMs) this.#update(device, () => this.#wake(device))
    if (!this.#haveAbilitiesChanged && nowMs <= this.#abilitiesUntilMs) return
    const counting = [...this.#abilities].filter(([, ability]) => abilityOf(ability, nowMs) !== undefined)
    this.#confidences = new Map(counting.map(([model, { confidence }]) => [model, confidence]))
    this.#abilitiesUntilMs = Math.min(...counting.map(([, ability]) => knownUntilMs(ability)))
    this.#haveAbilitiesChanged = false
    for (const device of this.#devices.values()) this.#remove(device)
    for (const device of this.#devices.values()) {
      device.known = undefined
      this.#insert(device)
    }
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

  #wake(device: FleetDevice): void {
    device.isResting = false
    this.#resting.delete(device)
  }

  #redescribe(device: FleetDevice, change: () => void): void {
    this.#update(device, () => {
      change()
      device.known = undefined
      device.key = undefined
    })
  }

  #update(device: FleetDevice, change: () => void): void {
    this.#remove(device)
    change()
    this.#insert(device)
  }

  #insert(device: FleetDevice): void {
    if (!device.isAble) return
    device.known ??= this.#describe(device)
    this.#able.add(device)
    if (Math.max(device.jobs.size, device.held) < this.#maxJobs) insert(this.#free, device, fasterFirst)
    if (!device.known) return
    if (device.jobs.size > 0) {
      this.#busy.add(device)
      return
    }
    const { speeds, known } = device
    device.key ??= JSON.stringify([speeds, known.current, known.networkS])
    const { key } = device
    const alike = this.#alike.get(key) ?? { key, devices: [] }
    this.#alike.set(key, alike)
    device.alike = alike
    insert(alike.devices, device, inOrder)
  }

  #remove(device: FleetDevice): void {
    if (!this.#able.delete(device)) return
    take(this.#free, device, fasterFirst)
    this.#busy.delete(device)
    const { alike } = device
    if (!alike) return
    device.alike = undefined
    take(alike.devices, device, inOrder)
    if (alike.devices.length === 0) this.#alike.delete(alike.key)
  }

  /** Its models ascend by ability, or stay in the order of its profile, by size, where not all abilities are known. */
  #describe({ name, speeds, current, hints, acceptS }: FleetDevice): ExpandingDevice | undefined {
    if (!speeds || speeds.length === 0) return undefined
    const models = speeds.map((speed) => ({ ...speed, ability: this.#confidences.get(speed.model) }))
    return {
      device: name,
      models: models.every(({ ability }) => ability !== undefined) ? models.sort((a, b) => a.ability! - b.ability!) : models,
      current: current ?? hints.current,
      busyS: 0,
      networkS: acceptS.value ?? hints.networkS,
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

function insert(sorted: FleetDevice[], device: FleetDevice, compare: Compare): void {
  sorted.splice(placeIn(sorted, device, compare), 0, device)
}

function take(sorted: FleetDevice[], device: FleetDevice, compare: Compare): void {
  const at = placeIn(sorted, device, compare)
  if (sorted[at] === device) sorted.splice(at, 1)
}
