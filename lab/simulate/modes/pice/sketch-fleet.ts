import { type DispatchRule, dispatchRule, hasRoom, termsOf } from '../../../../core/policy/pice/dispatch-rules.ts'
import { FleetQueue, usualS } from '../../../../core/policy/pice/fleet-queue.ts'
import type { SketchPolicy } from '../../../../core/policy/pice/plan-policy.ts'
import type { ExpandingDevice, FleetView, WaitingExpansion } from '../../../../core/policy/pice/state.ts'
import { smallModelsOf } from '../../device/small-models.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { ExpansionJob } from './expansion-job.ts'
import { Helper } from './helper.ts'
import { type Alike, IdleHelpers } from './idle-helpers.ts'
import { type ExpansionRequest, PendingExpansion } from './pending-expansion.ts'

/** Interval of looks at expansions that wait though a device is idle, as the bridge's. */
const tickMs = 100

/** PICE's lists of expansions and the devices that take them: cloud-bridge/pice/scheduler.ts on the virtual clock. Mutable. */
export class SketchFleet {
  readonly #world: World
  readonly #settings: PiceSettings
  readonly #rule: DispatchRule
  readonly #size: number
  readonly #idle: IdleHelpers
  /** Those with a job. */
  readonly #busy = new Set<Helper>()
  /** Sketches that no device is expanding, in the order in which they were written. */
  readonly #waiting = new Set<PendingExpansion>()
  #isScheduled = false

  constructor(world: World, policy: SketchPolicy, settings: PiceSettings) {
    this.#world = world
    this.#settings = settings
    this.#rule = dispatchRule(policy, settings.expansionsPerJob)
    const { helpers: named, abilities } = settings
    const helpers = world.devices.flatMap((device: SimulatedDevice): Helper[] => {
      if (named && !named.includes(device.group)) return []
      const models = smallModelsOf(device, world)
      return models.shapes.length > 0 ? [new Helper(device, models, abilities)] : []
    })
    this.#size = helpers.length
    this.#idle = new IdleHelpers(helpers)
    for (const helper of helpers) helper.models.onChange(() => this.#changed(helper))
  }

  /** Idle devices that are alike are one entry. */
  view(): FleetView {
    return {
      devices: this.#known(this.#idleGroups()),
      waiting: [...this.#waiting].map((pending) => this.#waitingOf(pending)),
    }
  }

  /** @returns false: the queue is full; nothing is called */
  expand(request: ExpansionRequest): boolean {
    const { simulation } = this.#world
    const { waitingPerDevice } = this.#settings
    if (!hasRoom(this.#waiting.size, this.#idle.count, this.#size, waitingPerDevice)) return false
    const pending = new PendingExpansion(
      {
        ...request,
        ended: () => {
          this.#waiting.delete(pending)
          request.ended()
        },
      },
      simulation.nowMs,
    )
    this.#waiting.add(pending)
    simulation.after(request.deadlineMs, () => {
      pending.fail()
      this.#cancelUseless()
    })
    this.#schedule(0)
    return true
  }

  #waitingOf(pending: PendingExpansion): WaitingExpansion & { readonly pending: PendingExpansion } {
    const { request, sinceMs, expectedTokens } = pending
    const waitedS = (this.#world.simulation.nowMs - sinceMs) / 1_000
    const { id } = request.answer.request
    return { id: String(id), expectedTokens, waitedS, budgetS: request.budgetMs / 1_000 - waitedS, pending }
  }

  #idleGroups(): Map<Alike, ExpandingDevice> {
    const entryOf = ({ known, helpers }: Alike) => ({
      ...known,
      device: String(helpers[0]!.device.index),
      count: helpers.length,
    })
    return new Map([...this.#idle.groups].map((alike) => [alike, entryOf(alike)]))
  }

  /** All devices, in the order of their indices. */
  #known(idle: ReadonlyMap<Alike, ExpandingDevice>): ExpandingDevice[] {
    const busy = [...this.#busy].map(({ now }) => now)
    return [...idle.values(), ...busy].sort((a, b) => Number(a.device) - Number(b.device))
  }

  #schedule(delayMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#world.simulation.after(delayMs, () => {
      this.#isScheduled = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    if (this.#waiting.size === 0) return
    const idle = [...this.#idle.fastestFirst]
    const groups = this.#idleGroups()
    const devices = this.#known(groups)
    let waiting = [...this.#waiting].map((pending) => this.#waitingOf(pending))
    let fleet: FleetQueue | undefined
    /** Devices that leave all that waits to others; those that are like them do so, too. */
    const unwilling = new Set<Alike>()
    for (const [at, helper] of idle.entries()) {
      if (waiting.length === 0) return
      if (unwilling.size === groups.size) break
      const alike = this.#idle.alikeOf(helper)
      if (unwilling.has(alike)) continue
      fleet ??= new FleetQueue(devices, termsOf(waiting.map(({ pending }) => sketchOf(pending))))
      const batch = this.#rule(waiting, { device: groups.get(alike), idleDevices: idle.length - at, fleet })
      if (batch.length === 0) unwilling.add(alike)
      else {
        this.#submit(
          helper,
          batch.map(({ pending }) => pending),
        )
        const taken = new Set(batch)
        waiting = waiting.filter((each) => !taken.has(each))
        fleet = undefined
        unwilling.clear()
      }
    }
    // Devices that are idle have left them to faster ones: age may change that.
    if (waiting.length > 0 && this.#idle.count > 0) this.#schedule(tickMs)
  }

  #submit(helper: Helper, batch: readonly PendingExpansion[]): void {
    const { device, models, idle: known } = helper
    const tokens = batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0)
    this.#idle.remove(helper)
    this.#busy.add(helper)
    for (const pending of batch) this.#waiting.delete(pending)
    const job: ExpansionJob = new ExpansionJob({
      simulation: this.#world.simulation,
      device,
      models,
      parts: batch,
      settings: this.#settings,
      predictedS: known.networkS + usualS(known, tokens, termsOf(batch.map(sketchOf))),
      accepted: () => helper.accepted(job.elapsedS),
      ended: () => this.#free(helper),
    })
    helper.job = job
  }

  #free(helper: Helper): void {
    helper.job = undefined
    this.#busy.delete(helper)
    this.#idle.add(helper)
    this.#schedule(0)
  }

  /** Something else has used an idle device's models. */
  #changed(helper: Helper): void {
    if (helper.job) return
    this.#idle.remove(helper)
    this.#idle.add(helper)
  }

  /** Ends jobs whose sentences no answer needs. */
  #cancelUseless(): void {
    for (const helper of this.#busy)
      if (helper.job!.parts.every(({ hasFailed }) => hasFailed)) {
        helper.job!.cancel()
        this.#free(helper)
      }
  }
}

const sketchOf = ({ expectedTokens, missing, request: { candidates } }: PendingExpansion) => ({
  expectedTokens,
  sentences: missing.length,
  candidates,
})
