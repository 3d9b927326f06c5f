import { Ewma } from '../../../../core/policy/estimate/ewma.ts'
import { type DispatchRule, dispatchRule, hasRoom, termsOf } from '../../../../core/policy/pice/dispatch-rules.ts'
import { usualS } from '../../../../core/policy/pice/fleet-queue.ts'
import type { SketchPolicy } from '../../../../core/policy/pice/plan-policy.ts'
import type { ExpandingDevice, FleetView, WaitingExpansion } from '../../../../core/policy/pice/state.ts'
import { smallModelsOf } from '../../device/small-models.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { ExpansionJob } from './expansion-job.ts'
import { type ExpansionRequest, PendingExpansion } from './pending-expansion.ts'

/** Interval of looks at expansions that wait though a device is idle, as the bridge's. */
const tickMs = 100

/** PICE's lists of expansions and the devices that take them: cloud-bridge/pice/scheduler.ts on the virtual clock. Mutable. */
export class SketchFleet {
  readonly #world: World
  readonly #settings: PiceSettings
  readonly #rule: DispatchRule
  readonly #devices: readonly SimulatedDevice[]
  readonly #pending = new Set<PendingExpansion>()
  /** One per device at most. */
  readonly #jobs = new Map<SimulatedDevice, ExpansionJob>()
  /** Time in which each device has accepted sketches, in seconds. */
  readonly #acceptS = new Map<SimulatedDevice, Ewma>()
  #isScheduled = false

  constructor(world: World, policy: SketchPolicy, settings: PiceSettings) {
    this.#world = world
    this.#settings = settings
    this.#rule = dispatchRule(policy, settings.expansionsPerJob)
    const { helpers } = settings
    const helps = (device: SimulatedDevice) => helpers === undefined || helpers.includes(device.group)
    this.#devices = world.devices.filter((device) => helps(device) && smallModelsOf(device, world).shapes.length > 0)
  }

  view(): FleetView {
    return {
      devices: this.#devices.map((device) => this.#known(device)),
      waiting: this.#waiting().map((pending) => this.#waitingOf(pending)),
    }
  }

  /** @returns false: the queue is full; nothing is called */
  expand(request: ExpansionRequest): boolean {
    const { simulation } = this.#world
    const { waitingPerDevice } = this.#settings
    if (!hasRoom(this.#waiting().length, this.#idle().length, this.#devices.length, waitingPerDevice)) return false
    const pending = new PendingExpansion(
      {
        ...request,
        ended: () => {
          this.#pending.delete(pending)
          request.ended()
        },
      },
      simulation.nowMs,
    )
    this.#pending.add(pending)
    simulation.after(request.deadlineMs, () => {
      pending.fail()
      this.#cancelUseless()
    })
    this.#schedule(0)
    return true
  }

  /** Sketches that no device is expanding. */
  #waiting(): PendingExpansion[] {
    const active = new Set([...this.#jobs.values()].flatMap(({ parts }) => parts))
    return [...this.#pending].filter((pending) => !active.has(pending))
  }

  #waitingOf(pending: PendingExpansion): WaitingExpansion & { readonly pending: PendingExpansion } {
    const { request, sinceMs, expectedTokens } = pending
    const waitedS = (this.#world.simulation.nowMs - sinceMs) / 1_000
    const { id } = request.answer.request
    return { id: String(id), expectedTokens, waitedS, budgetS: request.budgetMs / 1_000 - waitedS, pending }
  }

  #known(device: SimulatedDevice): ExpandingDevice {
    const models = smallModelsOf(device, this.#world)
    const { abilities } = this.#settings
    const speeds = models.speeds(false).map((speed) => ({ ...speed, ability: abilities[speed.model] }))
    return {
      device: String(device.index),
      // Ascending by ability where all are known, else by size.
      models: speeds.every(({ ability }) => ability !== undefined) ? speeds.sort((a, b) => a.ability! - b.ability!) : speeds,
      current: models.current,
      busyS: this.#jobs.get(device)?.busyS ?? 0,
      networkS: this.#acceptS.get(device)?.value ?? device.link.rttMs / 1_000,
    }
  }

  /** Devices that take a job now, the fastest first. */
  #idle(): SimulatedDevice[] {
    const tpotS = (device: SimulatedDevice) => smallModelsOf(device, this.#world).speeds(false)[0]!.tpotS
    return this.#devices
      .filter((device) => !this.#jobs.has(device))
      .map((device) => ({ device, tpotS: tpotS(device) }))
      .sort((a, b) => a.tpotS - b.tpotS)
      .map(({ device }) => device)
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
    let waiting = this.#waiting()
    if (waiting.length === 0) return
    const idle = this.#idle()
    const devices = this.#devices.map((device) => this.#known(device))
    for (const [at, device] of idle.entries()) {
      if (waiting.length === 0) return
      const terms = termsOf(waiting.map(sketchOf))
      const state = { device: this.#known(device), idleDevices: idle.length - at, devices, terms }
      const batch = this.#rule(
        waiting.map((pending) => this.#waitingOf(pending)),
        state,
      ).map(({ pending }) => pending)
      if (batch.length > 0) this.#submit(device, batch)
      waiting = waiting.filter((pending) => !batch.includes(pending))
    }
    // Devices that are idle have left them to faster ones: age may change that.
    if (waiting.length > 0 && this.#jobs.size < this.#devices.length) this.#schedule(tickMs)
  }

  #submit(device: SimulatedDevice, batch: readonly PendingExpansion[]): void {
    const { simulation } = this.#world
    const known = this.#known(device)
    const tokens = batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0)
    const job = new ExpansionJob({
      simulation,
      device,
      models: smallModelsOf(device, this.#world),
      parts: batch,
      settings: this.#settings,
      predictedS: known.networkS + usualS(known, tokens, termsOf(batch.map(sketchOf))),
      accepted: () => {
        const mean = this.#acceptS.get(device) ?? new Ewma()
        mean.record(job.elapsedS)
        this.#acceptS.set(device, mean)
      },
      ended: () => this.#free(device),
    })
    this.#jobs.set(device, job)
  }

  #free(device: SimulatedDevice): void {
    this.#jobs.delete(device)
    this.#schedule(0)
  }

  /** Ends jobs whose sentences no answer needs. */
  #cancelUseless(): void {
    for (const [device, job] of this.#jobs)
      if (job.parts.every(({ hasFailed }) => hasFailed)) {
        job.cancel()
        this.#free(device)
      }
  }
}

const sketchOf = ({ expectedTokens, missing, request: { candidates } }: PendingExpansion) => ({
  expectedTokens,
  sentences: missing.length,
  candidates,
})
