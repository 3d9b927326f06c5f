import { type AnswerPlan, type FullReason, isFinal, longTokens, type Question } from './plan-answer.ts'
import type { PlanPolicy } from './plan-policy.ts'
import type { SketchPlan } from './sketch-plans.ts'
import { SketchesUnderWay } from './sketches-under-way.ts'
import type { CloudSpeed, FleetView } from './state.ts'
import { UsualLengths } from './usual-lengths.ts'

/** How well one model foresees the lengths of its answers. */
export interface Foresight {
  /** A foreseen length without the model's systematic error. */
  correct(tokens: number): number
  /** An answer has ended by itself. */
  record(foreseenTokens: number, trueTokens: number): void
}

export interface PlannerSettings {
  readonly policy: PlanPolicy
  /** |r| / l of each level, longest first. */
  readonly sketchShares: readonly number[]
  readonly foresight: Foresight
  /** Whether plans count sketches that are being written; false: the queue alone, as PICE. */
  readonly countsSketching: boolean
}

/** What a request says about its plan. */
export interface PlannedRequest extends Pick<Question, 'isSketchRequested' | 'promptTokens' | 'tokensPerS'> {
  /** That the answer may have; Infinity: unlimited. */
  readonly maxTokens: number
}

/** The LLM and the fleet at the time of a plan. */
export interface PlanSituation {
  /** Undefined: the LLM has answered nothing yet. */
  readonly speed: CloudSpeed | undefined
  readonly view: FleetView
  readonly nowMs: number
}

/** Why an answer is full beside the reasons of the plan: the client's limit, a model that names no length, an LLM of unknown speed. */
export type PlannedFull<Reason extends string = never> = {
  readonly mode: 'full'
  readonly reason: FullReason | 'max-tokens' | 'foresight' | Reason
  readonly fullS?: number
  readonly predictedS?: number
}

/** A plan, and the length that it was made for. Tokens of the LLM. */
export interface PlannedAnswer {
  readonly plan: PlannedFull | SketchPlan
  /** As the model foresaw it; undefined: it named none. */
  readonly foreseenTokens?: number | undefined
  /** l: the same, corrected. */
  readonly expectedTokens?: number
}

/** Of an answer whose length the model does not name, if the client wants a sketch. */
const typicalTokens = 200
/** A model of unknown speed, if the client wants a sketch: it decides only how long devices are given. */
const typicalSpeed: CloudSpeed = { waitS: 0, ttftS: 1, tpotS: 0.05 }

/** Decides how answers are made: what the policy is asked, when, and what is learnt for the next plans. Mutable. */
export class AnswerPlanner {
  readonly #settings: PlannerSettings
  /** Sketches that are being written. */
  readonly #sketching = new SketchesUnderWay()

  readonly #lengths = new UsualLengths()

  constructor(settings: PlannerSettings) {
    this.#settings = settings
  }

  /** Before the length is foreseen. @returns undefined: the plan depends on the length */
  planEarly(request: PlannedRequest, situation: PlanSituation): PlannedFull | undefined {
    const expectedTokens = Math.max(1, Math.min(longTokens, request.maxTokens, this.#lengths.longest ?? longTokens))
    const plan = situation.speed && this.#plan({ ...request, expectedTokens }, situation.speed, situation)
    // Its times are of another length than the answer's, which is not known.
    return plan?.mode === 'full' && isFinal(plan.reason) ? full(plan.reason) : undefined
  }

  /**
   * @param foreseenTokens undefined: the model named no length
   * @param waitedS that foreseeing the length has taken
   */
  plan(request: PlannedRequest, foreseenTokens: number | undefined, waitedS: number, situation: PlanSituation): PlannedAnswer {
    const { isSketchRequested, maxTokens } = request
    if (foreseenTokens === undefined && !isSketchRequested) return { plan: full('foresight') }
    const expectedTokens = foreseenTokens === undefined ? typicalTokens : this.#settings.foresight.correct(foreseenTokens)
    const known = { foreseenTokens, expectedTokens }
    // It would be cut off in the middle of what devices write.
    if (expectedTokens > maxTokens) return { ...known, plan: full('max-tokens') }
    if (!situation.speed && !isSketchRequested) return { ...known, plan: full('unmeasured') }
    return { ...known, plan: this.#plan({ ...request, expectedTokens, waitedS }, situation.speed ?? typicalSpeed, situation) }
  }

  /** The LLM begins to write a sketch, with which plans that follow count. @returns to be called when it is submitted or given up */
  begin(id: string, expectedTokens: number, plan: Pick<SketchPlan, 'sketchS'>, nowMs: number): () => void {
    return this.#sketching.begin(id, expectedTokens, plan, nowMs)
  }

  /** An answer that might have been sketched has ended by itself, in full or by a sketch. */
  recordLength(tokens: number): void {
    this.#lengths.record(tokens)
  }

  /** A full answer has ended by itself. */
  learnLength(foreseenTokens: number, trueTokens: number): void {
    this.#settings.foresight.record(foreseenTokens, trueTokens)
  }

  #plan(question: Question, speed: CloudSpeed, { view, nowMs }: PlanSituation): AnswerPlan {
    const { policy, countsSketching, sketchShares } = this.#settings
    const coming = countsSketching ? this.#sketching.waiting(nowMs) : []
    return policy(question, { ...view, waiting: [...view.waiting, ...coming] }, speed, sketchShares)
  }
}

const full = (reason: PlannedFull['reason']): PlannedFull => ({ mode: 'full', reason })
