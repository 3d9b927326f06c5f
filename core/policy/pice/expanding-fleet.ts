import { type Ability, abilityOf, knownUntilMs, meanAbility, shrunk, writesRubbish } from './ability.ts'
import { AbleDevices } from './able-devices.ts'
import type { QueueLimits } from './expansion-events.ts'
import { type DeviceHints, type DeviceJob, type DevicePresence, FleetDevice } from './fleet-device.ts'
import type { ExpandingDevice, SmallModelSpeed } from './state.ts'

/** After a failure a device gets no sketches for this long, twice as long after each further one in a row. */
const restMs = { failed: 1_000, silent: 2_000, max: 60_000 }

/** The devices that expand sketches: which are connected, how fast they are, which rest after a failure. Mutable. */
export class ExpandingFleet {
  readonly able: AbleDevices
  readonly #devices = new Map<string, FleetDevice>()
  /** By model, then by device; '': of all. */
  readonly #abilities = new Map<string, Map<string, Ability>>()
  /** Of the models, over the fleet, and until when all that count in them do. */
  #means: ReadonlyMap<string, number | undefined> = new Map()
  #abilitiesUntilMs = Number.POSITIVE_INFINITY
  #haveAbilitiesChanged = false
  readonly #resting = new Set<FleetDevice>()
  /** Devices with `held` or `isExhausted`. */
  #limited = new Set<FleetDevice>()
  #size = 0

  /** @param maxJobs that one device may have */
  constructor(maxJobs: number) {
    this.able = new AbleDevices(maxJobs)
  }

  /** That take jobs, those that rest included. */
  get size(): number {
    return this.#size
  }

  get present(): FleetDevice[] {
    return [...this.#devices.values()].filter(({ presence }) => presence !== undefined)
  }

  /** When the next device has rested; undefined: none rests. */
  get restedMs(): number | undefined {
    let firstMs: number | undefined
    for (const { restUntilMs = 0 } of this.#resting) firstMs = Math.min(firstMs ?? restUntilMs, restUntilMs)
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

  /** @param device undefined: all */
  judged(device: string | undefined, model: string, ability: Ability): void {
    const own = this.#abilities.get(model) ?? new Map<string, Ability>()
    this.#abilities.set(model, own.set(device ?? '', ability))
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

  /** @param how silent: it has not accepted a job, or not answered in time */
  failed(device: FleetDevice, nowMs: number, how: 'failed' | 'silent' = 'failed'): void {
    this.#update(device, () => {
      device.failures += 1
      const untilMs = nowMs + Math.min(restMs.max, restMs[how] * 2 ** (device.failures - 1))
      device.restUntilMs = Math.max(device.restUntilMs ?? untilMs, untilMs)
      this.#resting.add(device)
    })
  }

  /** A device that was silent sends again. */
  returned(device: FleetDevice): void {
    if (device.restUntilMs !== undefined) this.#update(device, () => this.#wake(device))
  }

  /** What the queue tells of devices; those that are not named hold nothing. */
  limit({ held, exhausted }: QueueLimits): void {
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
    for (const device of this.#resting) if (device.restUntilMs! <= nowMs) this.#update(device, () => this.#wake(device))
    if (!this.#haveAbilitiesChanged && nowMs <= this.#abilitiesUntilMs) return
    const counting = [...this.#abilities.values()].flatMap((own) =>
      [...own.values()].filter((one) => abilityOf(one, nowMs) !== undefined),
    )
    this.#abilitiesUntilMs = Math.min(...counting.map(knownUntilMs))
    this.#haveAbilitiesChanged = false
    this.#means = new Map([...this.#abilities].map(([model, own]) => [model, meanAbility([...own.values()], nowMs)]))
    for (const device of this.#devices.values()) this.able.remove(device)
    for (const device of this.#devices.values()) this.#judgeModels(device, nowMs)
    for (const device of this.#devices.values()) {
      device.known = undefined
      this.#insert(device)
    }
  }

  #judgeModels(device: FleetDevice, nowMs: number): void {
    const own = [...this.#abilities].flatMap(([model, by]) => {
      const one = by.get(device.name)
      return one ? [[model, one] as const] : []
    })
    device.abilities = new Map(own.map(([model, one]) => [model, shrunk(one, this.#means.get(model), nowMs)]))
    device.rubbish = new Set(own.flatMap(([model, one]) => (writesRubbish(one, nowMs) ? [model] : [])))
    device.key = undefined
  }

  #wake(device: FleetDevice): void {
    device.restUntilMs = undefined
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
    this.able.remove(device)
    change()
    this.#insert(device)
  }

  #insert(device: FleetDevice): void {
    if (!device.isAble) return
    device.known ??= this.#describe(device)
    this.able.insert(device)
  }

  /** Its models ascend by ability, or stay in the order of its profile, by size, where not all abilities are known. */
  #describe({ name, speeds, current, hints, acceptS, abilities, rubbish }: FleetDevice): ExpandingDevice | undefined {
    if (!speeds || speeds.length === 0) return undefined
    const models = speeds
      .filter(({ model }) => !rubbish.has(model))
      .map((speed) => ({ ...speed, ability: abilities.get(speed.model) ?? this.#means.get(speed.model) }))
    return {
      device: name,
      models: models.every(({ ability }) => ability !== undefined) ? models.sort((a, b) => a.ability! - b.ability!) : models,
      current: current ?? hints.current,
      busyS: 0,
      networkS: acceptS.value ?? hints.networkS,
    }
  }
}
