import { writtenPerDevice } from '../../../../core/policy/pice/dispatch-rules.ts'
import {
  type ExpansionAction,
  type ExpansionInput,
  noLimits,
  type SubmittedSketch,
} from '../../../../core/policy/pice/expansion-events.ts'
import { ExpansionScheduler } from '../../../../core/policy/pice/expansion-scheduler.ts'
import type { FleetView } from '../../../../core/policy/pice/state.ts'
import { dispatchRule, type SketchPolicy } from '../../../baselines/sketch-policies.ts'
import type { SimulatedSmallModels } from '../../device/simulated-small-models.ts'
import { smallModelsOf } from '../../device/small-models.ts'
import { Alarm } from '../../kernel/alarm.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { ExpansionJob } from './expansion-job.ts'
import type { ExpansionPart, SimulatedExpansion } from './simulated-expansion.ts'

/** As the bridge's limits. Devices do not come and go here, and their jobs do not fail. */
const settingsOfBridge = { jobsPerDevice: 1, attempts: 3, deviceWaitMs: 3_000, graceMs: 0, expectsPlans: false }

/** A device that expands sketches. */
interface Helper {
  readonly name: string
  readonly device: SimulatedDevice
  readonly models: SimulatedSmallModels
}

/** The bridge's scheduler of expansions on the virtual clock, and the devices that carry its jobs out. Mutable. */
export class SketchFleet {
  readonly #world: World
  readonly #settings: PiceSettings
  readonly #scheduler: ExpansionScheduler
  readonly #helpers: ReadonlyMap<string, Helper>
  readonly #requests = new Map<string, SimulatedExpansion>()
  readonly #jobs = new Map<string, { readonly helper: Helper; readonly job: ExpansionJob }>()
  readonly #alarm: Alarm

  constructor(world: World, policy: SketchPolicy, settings: PiceSettings) {
    const { helpers: named, abilities, expansionsPerJob, waitingPerDevice } = settings
    this.#world = world
    this.#alarm = new Alarm(world.simulation, () => this.#feed({ kind: 'tick', ...noLimits }))
    this.#settings = settings
    this.#scheduler = new ExpansionScheduler(dispatchRule(policy, expansionsPerJob), {
      ...settingsOfBridge,
      waitingPerDevice: writtenPerDevice(waitingPerDevice),
      maxJobBytes: Number.POSITIVE_INFINITY,
      startedMs: world.simulation.nowMs,
    })
    for (const [model, confidence] of Object.entries(abilities))
      this.#feed({ kind: 'ability', model, confidence, sentences: Number.POSITIVE_INFINITY, ageMs: 0 })
    const helpers = world.devices.flatMap((device): Helper[] => {
      if (named && !named.includes(device.group)) return []
      const models = smallModelsOf(device, world)
      return models.shapes.length > 0 ? [{ name: String(device.index), device, models }] : []
    })
    this.#helpers = new Map(helpers.map((helper) => [helper.name, helper]))
    for (const { name: device, device: of, models } of helpers) {
      this.#feed({ kind: 'measured', device, speeds: models.speeds(false) })
      this.#feed({ kind: 'hints', device, current: models.current, networkS: of.link.rttMs / 1_000 })
      this.#feed({ kind: 'presence', device, presence: { takesJobs: true, canProfile: false } })
    }
  }

  /** Idle devices that are alike are one entry. */
  view(): FleetView {
    return this.#scheduler.view(this.#world.simulation.nowMs)
  }

  expand(request: SimulatedExpansion): void {
    const { answer, sketch, candidates, budgetMs, deadlineMs } = request
    const id = String(answer.request.id)
    const { expectedTokens, words } = sketch
    this.#requests.set(id, request)
    const sentences = words.map((_, at) => at)
    const lines = words.length
    const asked = { id, client: '', lines, sentences, candidates, arrived: [], expectedTokens, budgetMs, deadlineMs, bytes: 0 }
    this.#feed({ kind: 'begin', ...asked })
  }

  #feed(input: ExpansionInput): void {
    for (const action of this.#scheduler.handle(input, this.#world.simulation.nowMs)) this.#run(action)
    this.#alarm.set(this.#scheduler.wakeMs)
  }

  #run(action: ExpansionAction): void {
    switch (action.kind) {
      case 'submit':
        this.#submit(action)
        return
      case 'cancel':
        this.#jobs.get(action.job)!.job.cancel()
        this.#jobs.delete(action.job)
        return
      case 'deliver':
        this.#requests.get(action.id)!.arrived(action.sentence)
        return
      case 'done':
      case 'fail': {
        const request = this.#requests.get(action.id)!
        this.#requests.delete(action.id)
        request.ended()
        return
      }
      case 'learn': {
        const { name, models } = this.#jobs.get(action.job)!.helper
        this.#feed({ kind: 'measured', device: name, speeds: models.speeds(false) })
        return
      }
      case 'exceeded': {
        const { name, models } = this.#helpers.get(action.device)!
        models.recordOverrun(action.model, action.overrun)
        this.#feed({ kind: 'measured', device: name, speeds: models.speeds(false) })
        return
      }
      case 'profile':
        throw new Error(`device ${action.device} is measured`)
      default:
        action satisfies never
    }
  }

  #submit({ job: id, device: name, sketches }: Extract<ExpansionAction, { kind: 'submit' }>): void {
    const helper = this.#helpers.get(name)!
    const { device, models } = helper
    const job = new ExpansionJob({
      simulation: this.#world.simulation,
      device,
      models,
      parts: sketches.map((sketch, at) => this.#partOf(id, at, sketch)),
      settings: this.#settings,
      accepted: () => this.#feed({ kind: 'accepted', job: id }),
      ended: () => {
        this.#feed({ kind: 'succeeded', job: id, sentences: [], model: models.current })
        this.#jobs.delete(id)
      },
    })
    this.#jobs.set(id, { helper, job })
  }

  #partOf(job: string, sketch: number, { id, sentences }: SubmittedSketch): ExpansionPart {
    return {
      request: this.#requests.get(id)!,
      missing: sentences,
      take: (sentence, candidate) => this.#feed({ kind: 'sentence', job, sketch, sentence, candidate }),
    }
  }
}
