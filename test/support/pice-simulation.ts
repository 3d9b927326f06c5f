import type { Random } from '../../core/base/random.ts'
import { chooseModel, switchS } from '../../core/policy/pice/choose-model.ts'
import { FleetQueue } from '../../core/policy/pice/fleet-queue.ts'
import type { BatchTerms } from '../../core/policy/pice/next-batch.ts'
import type { AnswerPlan, PlanTerms } from '../../core/policy/pice/plan-answer.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { answerS, expansionS } from '../../core/policy/pice/speeds.ts'
import type { CloudSpeed, ExpandingDevice, FleetView, WaitingExpansion } from '../../core/policy/pice/state.ts'
import { takeBatch } from '../../core/policy/pice/take-batch.ts'

/** A cloud with slots, first come first served, and devices that expand, in simulated time. */
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

interface Sketched {
  readonly arrival: Arrival
  readonly plan: SketchPlan
  /** When the sketch is written. */
  readonly sinceS: number
}

export function simulate(arrivals: readonly Arrival[], by: Simulated): Outcome {
  const { terms } = by
  const slots = Array<number>(by.cloud.slots).fill(0)
  const devices = by.devices.map((device) => ({ ...device, freeS: 0 }))
  const sketched = new Set<Sketched>()
  const answers: Answered[] = []
  const states: { idle: number; waiting: number }[] = []
  let nowS = 0

  const expanding = () => devices.map(({ freeS, ...device }) => ({ ...device, busyS: Math.max(0, freeS - nowS) }))
  const waiting = (): (WaitingExpansion & { readonly sketch: Sketched })[] =>
    [...sketched].map((sketch, at) => ({
      id: `${at}`,
      expectedTokens: sketch.arrival.foreseen,
      waitedS: Math.max(0, nowS - sketch.sinceS),
      budgetS: sketch.plan.budgetS - Math.max(0, nowS - sketch.sinceS),
      arrivesInS: Math.max(0, sketch.sinceS - nowS),
      sketch,
    }))

  /** @returns when it is computed */
  function compute(tokens: number): number {
    const at = slots.indexOf(Math.min(...slots))
    slots[at] = Math.max(nowS, slots[at]!) + answerS({ ...by.cloud, waitS: 0 }, tokens)
    return slots[at]
  }

  function ask(arrival: Arrival): void {
    const speed = { ...by.cloud, waitS: Math.max(0, Math.min(...slots) - nowS) }
    const plan = by.plan(arrival.foreseen, { devices: expanding(), waiting: waiting() }, speed)
    if (plan.mode === 'full') answers.push({ arrival, plan, latencyS: compute(arrival.tokens) - nowS, waitedS: 0 })
    else sketched.add({ arrival, plan, sinceS: compute(plan.sketchTokens * by.noise().sketch) })
  }

  function dispatch(): void {
    const ready = () => waiting().filter(({ sketch }) => sketch.sinceS <= nowS)
    for (const device of devices) {
      const idle = devices.filter(({ freeS }) => freeS <= nowS)
      if (!idle.includes(device)) continue
      const batch = takeBatch({ ...device, busyS: 0 }, new FleetQueue(expanding(), terms), ready(), idle.length, terms)
      if (batch.length > 0) begin(device, batch)
    }
    states.push({ idle: devices.filter(({ freeS }) => freeS <= nowS).length, waiting: ready().length })
  }

  function begin(device: (typeof devices)[number], batch: readonly (WaitingExpansion & { readonly sketch: Sketched })[]): void {
    const tokens = batch.reduce((sum, { sketch }) => sum + sketch.arrival.tokens, 0)
    const sequences = Math.max(1, Math.round(tokens / terms.tokensPerSentence))
    const budgetS = Math.min(...batch.map(({ budgetS }) => budgetS!))
    const model = chooseModel(device, { expectedTokens: tokens, sequences, budgetS, mayUpgrade: false })
    device.freeS = nowS + switchS(model, device.current) + expansionS(model, tokens, sequences) * by.noise().expansion
    Object.assign(device, { current: model.model })
    for (const { sketch, waitedS } of batch) {
      sketched.delete(sketch)
      const { arrival, plan } = sketch
      answers.push({ arrival, plan, latencyS: device.freeS + device.networkS - arrival.atS, waitedS })
    }
  }

  const upcoming = [...arrivals]
  for (;;) {
    const ends = sketched.size > 0 ? devices.map(({ freeS }) => freeS) : []
    const sketches = [...sketched].map(({ sinceS }) => sinceS)
    const later = [...upcoming.slice(0, 1).map(({ atS }) => atS), ...sketches, ...ends].filter((atS) => atS > nowS)
    if (later.length === 0) return { answers, states }
    nowS = Math.min(...later)
    while (upcoming[0] && upcoming[0].atS <= nowS) ask(upcoming.shift()!)
    dispatch()
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
