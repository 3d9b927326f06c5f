import { deviceS, type ExpansionTerms, FleetQueue, fits, usualS } from './fleet-queue.ts'
import type { Metrics } from './objectives.ts'
import { answerS } from './speeds.ts'
import type { CloudSpeed, FleetView } from './state.ts'

/** What predictions depend on: configuration. `tokensPerSentence` is an expectation. */
export interface PredictionTerms extends ExpansionTerms {
  /** By so many tokens a sketch may exceed the length that it was asked for. */
  readonly sketchSlackTokens: number
  /**
   * Whether devices work off their queue while the sketch is written, so that only the rest of it delays the expansion. False:
   * Eq. 2 as printed, which adds the two.
   */
  readonly overlap: boolean
  /** Ability of a small model that has not been measured. */
  readonly unmeasuredAbility: number
}

/** By so much longer than predicted may an expansion take where others wait. */
const lateness = 1.5

/** Times in seconds from now. */
export interface SketchPlan {
  readonly mode: 'sketch'
  /** 1 is the longest sketch. */
  readonly level: number
  /** |r|, as asked for. */
  readonly sketchTokens: number
  /** f(l), f(|r|). */
  readonly fullS: number
  readonly sketchS: number
  /** f(l) − f(|r|): what is left for the expansion. The real sketch may leave more or less. */
  readonly budgetS: number
  /**
   * The most that the expansion should take where other answers wait or are sketched, from its sketch on: about what this plan's
   * small model takes, because what an abler, slower one took beyond that would keep them waiting. Infinity: there are none.
   */
  readonly withinS: number
  /** Expansions that will wait when the sketch is written. */
  readonly ahead: number
  /** From the sketch to the beginning of its expansion; Δ(r) and c·f(l)/p. */
  readonly queueS: number
  readonly networkS: number
  readonly expansionS: number
  /** All of them: the left side of Eq. 2. */
  readonly predictedS: number
  /** Which would expand it first; Algorithms 1 and 2 decide when the time has come. */
  readonly device: string
  readonly model: string
  readonly metrics: Metrics
}

/** A plan for each level, device and small model, whether it satisfies Eq. 2 or not. */
export function sketchPlans(
  tokens: number,
  view: FleetView,
  cloud: CloudSpeed,
  sketchShares: readonly number[],
  terms: PredictionTerms,
): readonly SketchPlan[] {
  const fullS = answerS(cloud, tokens)
  const othersWait = cloud.waitS > 0 || view.waiting.length > 0
  const [longest = 1] = sketchShares
  // What was asked for before is not written later than if it were asked for now, whatever was expected then.
  const latestS = (expectedTokens: number) => answerS(cloud, longest * expectedTokens + terms.sketchSlackTokens)
  const waiting = view.waiting.map(({ arrivesInS = 0, ...sketch }) => ({
    ...sketch,
    arrivesInS: Math.min(arrivesInS, latestS(sketch.expectedTokens)),
  }))
  const queueFor = queueOf(tokens, { ...view, waiting }, terms)
  return sketchShares.flatMap((share, at) => {
    const sketchTokens = Math.max(1, Math.round(share * tokens))
    const sketchS = answerS(cloud, Math.min(tokens, sketchTokens + terms.sketchSlackTokens))
    const level = { level: at + 1, sketchTokens, fullS, sketchS, budgetS: fullS - sketchS }
    const { begunS, fleetS } = queueFor(level.budgetS)
    const ahead = terms.overlap ? begunS.filter((untilS) => untilS > sketchS).length : begunS.length
    return view.devices.flatMap((device) =>
      device.models
        .filter((model) => fits(model, terms))
        .map((model): SketchPlan => {
          const freeS = Math.max(begunS.at(-1) ?? 0, device.busyS)
          const waitS = terms.overlap ? Math.max(0, freeS - sketchS) : freeS
          const { networkS } = device
          const expansionS = deviceS(device, model, tokens, terms)
          const predictedS = sketchS + waitS + networkS + expansionS
          const metrics = {
            // A sketch that is the whole answer leaves nothing to the small model.
            error: (1 - (model.ability ?? terms.unmeasuredAbility)) * (1 - share),
            throughput: bottleneckS({
              ...{ cloud, sketchS, networkS, expansionS, edgeWaitS: waitS },
              // Faster models take less of what the fleet can do.
              fleetS: (fleetS * expansionS) / usualS(device, tokens, terms),
            }),
            latency: predictedS,
            serverCost: sketchTokens,
            edgeCost: tokens * terms.candidates,
          }
          const withinS = othersWait ? lateness * (networkS + expansionS) : Number.POSITIVE_INFINITY
          const times = { withinS, queueS: waitS, networkS, expansionS, predictedS }
          return { mode: 'sketch', ...level, ahead, ...times, device: device.device, model: model.model, metrics }
        }),
    )
  })
}

/**
 * The queue that a sketch meets, by the time that is left after it. Devices that are too slow for it even without any work take no
 * part, unless all are.
 */
function queueOf(tokens: number, { devices, waiting }: FleetView, terms: PredictionTerms) {
  const queues = new Map<number, { readonly begunS: readonly number[]; readonly fleetS: number }>()
  const ownS = devices.map((device) => usualS(device, tokens, terms))
  return (budgetS: number) => {
    const inTime = devices.map((device, at) => device.networkS + ownS[at]! <= budgetS)
    const entries = inTime.filter(Boolean).length
    // As many devices are the same ones.
    const known = queues.get(entries)
    if (known) return known
    const partaking = devices.filter((_, at) => entries === 0 || inTime[at]!)
    const queue = {
      begunS: new FleetQueue(partaking, terms).queueS(waiting),
      /** For an answer while all devices work. */
      fleetS: 1 / partaking.reduce((perS, device) => perS + (device.count ?? 1) / usualS(device, tokens, terms), 0),
    }
    queues.set(entries, queue)
    return queue
  }
}

export function metricsOfFull(tokens: number, cloud: CloudSpeed): Metrics {
  const fullS = answerS(cloud, tokens)
  return { error: 0, throughput: cloudS(cloud, fullS), latency: fullS, serverCost: tokens, edgeCost: 0 }
}

interface Stages {
  readonly cloud: CloudSpeed
  readonly sketchS: number
  readonly networkS: number
  readonly expansionS: number
  /** That the sketch waits for a device. */
  readonly edgeWaitS: number
  /** For an answer while all devices work. */
  readonly fleetS: number
}

/**
 * The stage that limits the throughput: max(f(|r|), Δ, c·f(l)/p) (PICE §IV-A) while nothing waits. Else the stage that answers
 * wait for longest: what this answer takes of all that it computes at once. Time of devices counts beside the LLM's by how long
 * sketches wait for it; where they do not, devices have it to spare.
 */
function bottleneckS({ cloud, sketchS, networkS, expansionS, edgeWaitS, fleetS }: Stages): number {
  if (edgeWaitS > cloud.waitS) return Math.max(fleetS, sharedS(cloud, sketchS))
  if (cloud.waitS > 0) return cloudS(cloud, sketchS) + (fleetS * edgeWaitS) / cloud.waitS
  return Math.max(sketchS, networkS, expansionS)
}

/** Seconds of the LLM for each of the answers that it computes at once until then: those that wait, or that share its time now. */
const sharedS = (cloud: CloudSpeed, untilS: number) =>
  cloud.waitS > 0 ? cloudS(cloud, untilS) : untilS / Math.max(cloud.slots ?? 1, (cloud.running ?? 0) + 1)

/** Seconds of the LLM for an answer that it computes until then. */
const cloudS = ({ waitS, slots = 1 }: CloudSpeed, untilS: number) => (waitS > 0 ? (untilS - waitS) / slots : untilS)
