import { chooseByObjectives, type Objective } from './objectives.ts'
import { metricsOfFull, type PredictionTerms, type SketchPlan, sketchPlans } from './sketch-plans.ts'
import { answerS } from './speeds.ts'
import { type CloudSpeed, deviceCount, type FleetView } from './state.ts'
import { othersGainS, readFullS, readSketchedS } from './worth-waiting.ts'

/** How answers are planned: configuration. */
export interface PlanTerms extends PredictionTerms {
  /** Shorter answers are not sketched. */
  readonly minTokens: number
  /** Expansions that may wait for each device; answers beyond are full. PICE found 1 best and more than 2 harmful. */
  readonly maxWaitingPerDevice: number
  /** Share of f(l), or of when it is read, by which a sketched answer must be faster: 0 is Eq. 2. */
  readonly margin: number
  /** The shortest sketch is that whose predicted error is no larger: abler small models get shorter sketches. */
  readonly maxError: number
  readonly objectives: readonly Objective[]
}

export const defaultPlanTerms: PlanTerms = {
  minTokens: 64,
  maxWaitingPerDevice: 1,
  tokensPerSentence: 20,
  candidates: 1,
  sketchSlackTokens: 10,
  margin: 0,
  overlap: true,
  unmeasuredAbility: 0.5,
  maxError: 0.4,
  objectives: [
    { metric: 'throughput', tolerance: 0.1 },
    { metric: 'error', tolerance: 0.1 },
    { metric: 'latency', tolerance: 0.1 },
    { metric: 'serverCost', tolerance: 0 },
    { metric: 'edgeCost', tolerance: 0 },
  ],
}

export interface Question {
  /** l: foreseen length of the answer, corrected. */
  readonly expectedTokens: number
  /** The client asks for a sketch: Eq. 2 and the error then only decide which one. A full queue, or no device, still prevents it. */
  readonly isSketchRequested: boolean
  /**
   * r: tokens per second of the reader of a streamed answer. Then a sketch must be worth the wait: by when all has been read, or by
   * what the answers gain that wait for the LLM. Absent: the answer counts when it is complete, Eq. 2 as printed.
   */
  readonly tokensPerS?: number | undefined
  /** Of the conversation; absent: short. */
  readonly promptTokens?: number
  /** Seconds since it was asked for, in which the LLM has foreseen its length. Absent: 0. */
  readonly waitedS?: number
}

/**
 * Why the LLM answers in full: the answer is short; no device expands, or none has been measured; the conversation fits into no small model; the queue is full; no level satisfies Eq. 2, or is worth its
 * reader's wait; no small model is able enough; the configured objectives prefer it.
 */
export type FullReason = 'short' | 'no-device' | 'unmeasured' | 'context' | 'queue-full' | 'latency' | 'error' | 'objectives'

/** An answer of this length shows whether a sketch can be faster at all: its plan is made before the length is foreseen. */
export const longTokens = 1_024
/** Whether a long answer's plan for this reason holds for shorter ones too: it may be short by the client's limit. */
export const isFinal = (reason: FullReason): boolean => reason !== 'objectives'

export type AnswerPlan =
  | SketchPlan
  | {
      readonly mode: 'full'
      readonly reason: FullReason
      readonly fullS: number
      /** The least left side of Eq. 2; absent where no sketch was considered. */
      readonly predictedS?: number
    }

/**
 * Whether the LLM answers in full or sketches, and at which level (PICE §IV-A). Choices are the full answer, and the levels, devices
 * and small models that satisfy Eq. 2 (or are worth the reader's wait) and are able enough. The objectives choose among them.
 * @param view its waiting expansions should include those whose sketches are still being written, with `arrivesInS`
 * @param sketchShares |r| / l of each level, longest first
 */
export function planAnswer(
  question: Question,
  view: FleetView,
  cloud: CloudSpeed,
  sketchShares: readonly number[],
  terms: PlanTerms = defaultPlanTerms,
): AnswerPlan {
  const { expectedTokens, isSketchRequested, tokensPerS, waitedS = 0 } = question
  const fullS = answerS(cloud, expectedTokens)
  const full = (reason: FullReason, predictedS?: number): AnswerPlan =>
    predictedS === undefined ? { mode: 'full', reason, fullS } : { mode: 'full', reason, fullS, predictedS }
  if (expectedTokens < terms.minTokens && !isSketchRequested) return full('short')
  if (view.devices.length === 0) return full(view.unmeasured ? 'unmeasured' : 'no-device')
  const room = terms.maxWaitingPerDevice * deviceCount(view.devices)
  const asked = { ...terms, promptTokens: question.promptTokens ?? 0 }
  const fitting = sketchPlans(expectedTokens, view, cloud, sketchShares, asked)
  if (fitting.length === 0) return full('context')
  const all = fitting.filter(({ ahead }) => ahead < room)
  if (all.length === 0) return full('queue-full')

  const leastS = all.reduce((min, { predictedS }) => Math.min(min, predictedS), Number.POSITIVE_INFINITY)
  const inTime = all.filter(isInTime)
  const able = (isSketchRequested && inTime.length === 0 ? all : inTime).filter(({ metrics }) => metrics.error <= terms.maxError)
  if (isSketchRequested) return chooseByObjectives(able.length > 0 ? able : inTime.length > 0 ? inTime : all, terms.objectives)
  if (able.length === 0) return full(inTime.length === 0 ? 'latency' : 'error', leastS)
  const alone = { mode: 'full' as const, metrics: metricsOfFull(expectedTokens, cloud) }
  const chosen = chooseByObjectives<SketchPlan | typeof alone>([...able, alone], terms.objectives)
  return chosen.mode === 'full' ? full('objectives', leastS) : chosen

  function isInTime(plan: SketchPlan): boolean {
    if (tokensPerS === undefined) return plan.predictedS <= (1 - terms.margin) * fullS
    const reader = { tokens: expectedTokens, tokensPerS }
    return readSketchedS(plan, reader) <= (1 - terms.margin) * readFullS(cloud, fullS, reader) + othersGainS(cloud, plan, waitedS)
  }
}
