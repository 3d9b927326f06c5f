import { Ewma } from '../estimate/ewma.ts'
import type { ExpandingDevice, SmallModelSpeed } from './state.ts'

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

export interface DeviceJob {
  /** Predicted time until the device has finished it. */
  busyS(nowMs: number): number
  /** It has taken so much longer than predicted that the device may be gone. */
  readonly isOverdue: boolean
}

/** A device of the fleet, and what the bridge knows of it. Mutable: `ExpandingFleet` and `AbleDevices` change it. */
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
  /** Undefined: it does not rest. */
  restUntilMs: number | undefined
  /** It has stored as much as it may today. */
  isExhausted = false
  /** Jobs of any kind that the queue has given it. */
  held = 0
  /** As it is without a job. */
  known: ExpandingDevice | undefined
  /** When it was last asked for a profile. */
  profileAskedMs = Number.NEGATIVE_INFINITY
  /** Of its models, by its own sentences and the fleet's; those of others are the fleet's. */
  abilities: ReadonlyMap<string, number | undefined> = new Map()
  /** Its models that write what is no expansion. */
  rubbish: ReadonlySet<string> = new Set()
  /** What tells it from others. */
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
    if (!this.takesJobs || this.restUntilMs !== undefined || this.isExhausted) return false
    for (const { isOverdue } of this.jobs) if (isOverdue) return false
    return this.rubbish.size === 0 || !this.speeds?.every(({ model }) => this.rubbish.has(model))
  }

  busyS(nowMs: number): number {
    let sum = 0
    for (const job of this.jobs) sum += job.busyS(nowMs)
    return sum
  }
}

/** Devices without sketches that do not differ in anything that plans depend on. */
export interface Alike {
  readonly key: string
  /** In order of appearance. */
  readonly devices: FleetDevice[]
}
