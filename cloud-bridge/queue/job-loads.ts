import type { Store } from '../../core/kit/store/open-database.ts'
import { type Lane, lanes } from '../../core/policy/jobs/assign-jobs.ts'
import { maintenanceKinds } from '../../core/wire/protocol/jobs.ts'

/** A job has left one device for another, or for none. */
interface Move {
  readonly kind: string
  readonly from: string | null
  readonly to: string | null
}

/** What may allow a dispatch since it was last asked for. */
export interface JobChanges {
  /** Devices whose number of jobs has changed, and those for which a job of their own has become ready. */
  readonly devices: ReadonlySet<string>
  /** Kinds of which a job has become ready that any device may run. */
  readonly kinds: ReadonlySet<string>
  /** A damaged job was among the candidates: there may be others in its place. */
  readonly isIncomplete: boolean
}

/**
 * Number of jobs that each device holds in each lane, in memory: the dispatcher asks after every event. It also collects what
 * may allow a dispatch, so that the dispatcher need not look at every device.
 */
export class JobLoads {
  readonly #loads: Readonly<Record<Lane, Map<string, number>>>
  /** Devices with more than one job of work. */
  readonly #several = new Set<string>()
  /** Devices for which jobs of their own may be ready, so that no other one is looked up. */
  readonly #bound: Readonly<Record<Lane, Set<string>>> = { work: new Set(), maintenance: new Set() }
  #moves: Move[] = []
  #devices = new Set<string>()
  #kinds = new Set<string>()
  #isIncomplete = false

  /** @param store must have the tables of `jobTables` */
  constructor(store: Store) {
    this.#loads = { work: new Map(), maintenance: new Map() }
    const held = store.prepare<[], { holder: string; kind: string; count: number }>(
      'SELECT holder, kind, count(*) AS count FROM jobs WHERE holder IS NOT NULL GROUP BY holder, kind',
    )
    for (const { holder, kind, count } of held.all()) this.#add(holder, kind, count)
    const ready = store.prepare<[], { kind: string; target: string | null }>(
      "SELECT DISTINCT kind, target FROM jobs WHERE due_ms IS NOT NULL AND state = 'QUEUED' AND not_before_ms IS NULL",
    )
    for (const { kind, target } of ready.all()) this.onReady(kind, target)
  }

  of(lane: Lane): ReadonlyMap<string, number> {
    return this.#loads[lane]
  }

  /** Of both lanes. */
  all(): ReadonlyMap<string, number> {
    const sum = new Map(this.#loads.work)
    for (const [device, count] of this.#loads.maintenance) sum.set(device, count + (sum.get(device) ?? 0))
    return sum
  }

  /** Whether the device holds no job of either lane. */
  isIdle(device: string): boolean {
    return lanes.every((lane) => !this.#loads[lane].has(device))
  }

  /** Whether a job may wait behind another one of its device. */
  get hasWaiting(): boolean {
    return this.#several.size > 0
  }

  /** Up to `max` devices with more than one job of work; the next call continues with others. */
  nextWithSeveral(max: number): string[] {
    const devices = [...this.#several].slice(0, max)
    for (const device of devices) {
      this.#several.delete(device)
      this.#several.add(device)
    }
    return devices
  }

  /** Within a transaction: counts from its commit on. */
  move(move: Move): void {
    this.#moves.push(move)
  }

  /** A job may be dispatched from now on. @param target the only device that may run it; null: any */
  onReady(kind: string, target: string | null): void {
    if (target === null) return void this.#kinds.add(kind)
    this.#devices.add(target)
    this.#bound[laneOf(kind)].add(target)
  }

  onSetAside(kind: string, target: string | null): void {
    this.onReady(kind, target)
    this.#isIncomplete = true
  }

  /** Whether jobs that only this device may run may be ready. */
  mayHaveOwn(device: string, lane: Lane): boolean {
    return this.#bound[lane].has(device)
  }

  /** None is ready. */
  hasNoneOfItsOwn(device: string, lane: Lane): void {
    this.#bound[lane].delete(device)
  }

  commit(): void {
    for (const { kind, from, to } of this.#moves) {
      if (from !== null) this.#add(from, kind, -1)
      if (to !== null) this.#add(to, kind, 1)
    }
    this.#moves = []
  }

  rollBack(): void {
    this.#moves = []
  }

  /** The changes since the last call. */
  takeChanges(): JobChanges {
    const changes = { devices: this.#devices, kinds: this.#kinds, isIncomplete: this.#isIncomplete }
    this.#devices = new Set()
    this.#kinds = new Set()
    this.#isIncomplete = false
    return changes
  }

  #add(device: string, kind: string, count: number): void {
    const lane = laneOf(kind)
    const loads = this.#loads[lane]
    const load = (loads.get(device) ?? 0) + count
    if (load > 0) loads.set(device, load)
    else loads.delete(device)
    if (lane === 'work' && load > 1) this.#several.add(device)
    else if (lane === 'work') this.#several.delete(device)
    this.#devices.add(device)
  }
}

const laneOf = (kind: string): Lane => (maintenanceKinds.has(kind) ? 'maintenance' : 'work')
