import type { Random } from '../../core/kit/base/random.ts'
import { chooseModel, switchS } from '../../core/policy/pice/choose-model.ts'
import { batchByLength } from '../../core/policy/pice/dispatch-rules.ts'
import { type ExpansionAction, type ExpansionInput, noLimits } from '../../core/policy/pice/expansion-events.ts'
import { ExpansionScheduler } from '../../core/policy/pice/expansion-scheduler.ts'
import type { BatchTerms } from '../../core/policy/pice/next-batch.ts'
import type { AnswerPlan, PlanTerms } from '../../core/policy/pice/plan-answer.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { SketchesUnderWay } from '../../core/policy/pice/sketches-under-way.ts'
import { answerS, expansionS } from '../../core/policy/pice/speeds.ts'
import type { CloudSpeed, ExpandingDevice, FleetView } from '../../core/policy/pice/state.ts'

/** A cloud with slots, first come first served, and devices that expand, in simulated time: a plain check of plans and batches. */
export interface Simulated {
  readonly cloud: { readonly slots: number; readonly ttftS: number; readonly tpotS: number }
  readonly devices: readonly Omit<ExpandingDevice, 'busyS'>[]
  readonly terms: PlanTerms & BatchTerms
  /** Real over predicted: length of a sketch, time of an expansion. */
  noise(): { readonly sketch: number; readonly expansion: number }
  plan(expectedTokens: number, view: FleetView, cloud: CloudSpeed): AnswerPlan
}

/** A question whose answer has so many tokens. */
export interface Arrival {
  readonly atS: number
  readonly tokens: number
  readonly foreseen: number
}

export interface Answered {
  readonly arrival: Arrival
  readonly plan: AnswerPlan
  readonly latencyS: number
  /** From the sketch to the beginning of its expansion. */
  readonly waitedS: number
}

export interface Outcome {
  readonly answers: readonly Answered[]
  /** After each dispatch: devices without work, and expansions that wait. */
  readonly states: readonly { readonly idle: number; readonly waiting: number }[]
}

const settings = {
  ...{ jobsPerDevice: 1, waitingPerDevice: Number.POSITIVE_INFINITY, attempts: 3, maxJobBytes: Number.POSITIVE_INFINITY },
  ...{ deviceWaitMs: 0, graceMs: 0, expectsPlans: false, startedMs: 0 },
}

/** Drives the bridge's scheduler; how long devices take for its jobs is computed here. */
export function simulate(arrivals: readonly Arrival[], by: Simulated): Outcome {
  const { terms } = by
  const slots = Array<number>(by.cloud.slots).fill(0)
  const devices = new Map(by.devices.map((device) => [device.device, { ...device, freeS: 0 }]))
  const scheduler = new ExpansionScheduler(batchByLength(terms.maxSketches), settings)
  const underWay = new SketchesUnderWay()
  const sketched = new Map<string, { readonly arrival: Arrival; readonly plan: SketchPlan; readonly sinceS: number }>()
  const answers: Answered[] = []
  const states: { idle: number; waiting: number }[] = []
  const events: { readonly atS: number; happen(): void }[] = []
  let nowS = 0

  const feed = (input: ExpansionInput): void => {
    for (const action of scheduler.handle(input, 1_000 * nowS)) if (action.kind === 'submit') begin(action)
  }

  for (const { device, models, current, networkS } of devices.values()) {
    feed({ kind: 'measured', device, speeds: models.map((model) => ({ ...model, ability: undefined })) })
    for (const { model, ability = 0 } of models)
      feed({ kind: 'ability', model, confidence: ability, sentences: Number.POSITIVE_INFINITY, ageMs: 0 })
    feed({ kind: 'hints', device, current, networkS })
    feed({ kind: 'presence', device, presence: { takesJobs: true, canProfile: false } })
  }
  for (const [id, arrival] of arrivals.entries()) events.push({ atS: arrival.atS, happen: () => ask(String(id), arrival) })

  /** @returns when it is computed */
  function compute(tokens: number): number {
    const at = slots.indexOf(Math.min(...slots))
    slots[at] = Math.max(nowS, slots[at]!) + answerS({ ...by.cloud, waitS: 0 }, tokens)
    return slots[at]
  }

  function ask(id: string, arrival: Arrival): void {
    const speed = { ...by.cloud, waitS: Math.max(0, Math.min(...slots) - nowS) }
    const { devices, waiting } = scheduler.view(1_000 * nowS)
    const view = { devices, waiting: [...waiting, ...underWay.waiting(1_000 * nowS)] }
    const plan = by.plan(arrival.foreseen, view, speed)
    if (plan.mode === 'full') {
      answers.push({ arrival, plan, latencyS: compute(arrival.tokens) - nowS, waitedS: 0 })
      return
    }
    const sinceS = compute(plan.sketchTokens * by.noise().sketch)
    const end = underWay.begin(id, arrival.foreseen, { sketchS: sinceS - nowS }, 1_000 * nowS)
    events.push({
      atS: sinceS,
      happen() {
        end()
        sketched.set(id, { arrival, plan, sinceS })
        const sentences = Array.from({ length: Math.round(arrival.foreseen / terms.tokensPerSentence) }, (_, at) => at)
        const sketch = { lines: sentences.length, sentences, candidates: 1, expectedTokens: arrival.foreseen, bytes: 0 }
        feed({ kind: 'begin', id, client: '', arrived: [], budgetMs: 1_000 * plan.budgetS, deadlineMs: 1e9, ...sketch })
      },
    })
  }

  function begin({ job, device: name, sketches }: Extract<ExpansionAction, { kind: 'submit' }>): void {
    const device = devices.get(name)!
    const batch = sketches.map(({ id }) => sketched.get(id)!)
    const tokens = batch.reduce((sum, { arrival }) => sum + arrival.tokens, 0)
    const sequences = Math.max(1, Math.round(tokens / terms.tokensPerSentence))
    const budgetS = Math.min(...batch.map(({ plan, sinceS }) => plan.budgetS - (nowS - sinceS)))
    const model = chooseModel(device, { expectedTokens: tokens, sequences, budgetS, mayUpgrade: false })
    device.freeS = nowS + switchS(model, device.current) + expansionS(model, tokens, sequences) * by.noise().expansion
    Object.assign(device, { current: model.model })
    for (const { arrival, plan, sinceS } of batch)
      answers.push({ arrival, plan, latencyS: device.freeS + device.networkS - arrival.atS, waitedS: nowS - sinceS })
    events.push({
      atS: device.freeS,
      happen() {
        const all = sketches.flatMap(({ sentences }, sketch) => sentences.map((sentence) => ({ sketch, sentence, candidate: 0 })))
        feed({ kind: 'succeeded', job, sentences: all, model: model.model })
      },
    })
  }

  for (;;) {
    const wakeS = (scheduler.wakeMs ?? Number.POSITIVE_INFINITY) / 1_000
    const next = events.length > 0 ? events.reduce((a, b) => (b.atS < a.atS ? b : a)) : undefined
    if (next && next.atS <= wakeS) {
      nowS = Math.max(nowS, next.atS)
      events.splice(events.indexOf(next), 1)
      next.happen()
    } else if (!next && scheduler.view(1_000 * nowS).waiting.length === 0) return { answers, states }
    else {
      // In ms it may be rounded to less than what is due.
      nowS = Math.max(nowS, wakeS + 1e-9)
      feed({ kind: 'tick', ...noLimits })
      // A device that becomes free in the same instant has not said so yet.
      const idle = [...devices.values()].filter(({ freeS }) => freeS < nowS - 1e-6).length
      states.push({ idle, waiting: scheduler.view(1_000 * nowS).waiting.length })
    }
  }
}

/**
 * Poisson arrivals of answers of 120 to 300 tokens.
 * @param foresight largest relative error of the foreseen lengths
 */
export function poisson(
  random: Random,
  { perS, count, foresight }: { perS: number; count: number; foresight: number },
): Arrival[] {
  let atS = 0
  return Array.from({ length: count }, () => {
    atS -= Math.log(1 - random.next()) / perS
    const tokens = Math.round(120 + 180 * random.next())
    return { atS, tokens, foreseen: Math.round(tokens * (1 + foresight * (2 * random.next() - 1))) }
  })
}
