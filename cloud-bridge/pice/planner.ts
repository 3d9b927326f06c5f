import { foreseenTokens } from '../../core/answer/sketch/foresight.ts'
import { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import {
  AnswerPlanner,
  type Foresight,
  type PlannedAnswer,
  type PlannedFull,
  type PlanSituation,
} from '../../core/policy/pice/answer-planner.ts'
import type { CloudMeter } from '../../core/policy/pice/cloud-meter.ts'
import { bytesPerToken } from '../../core/policy/pice/pending-sketch.ts'
import type { PlanPolicy } from '../../core/policy/pice/plan-policy.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import type { CloudSpeed } from '../../core/policy/pice/state.ts'
import { type SketchMessages, sketchMessages } from './conversation.ts'
import type { Expander } from './expander.ts'
import type { Asked, Llm } from './llm.ts'

/** Of a conversation that small models get with a sketch, as JSON. */
const maxPromptBytes = 32 * 1_024

export interface PlannerOptions {
  readonly llm: Llm
  readonly cloud: Pick<CloudMeter, 'speed'>
  readonly expander: Pick<Expander, 'view'>
  readonly foresight: Foresight
  readonly policy: PlanPolicy
  /** Whether answers to such a conversation gain by a sketch: code and mathematics do not. */
  readonly suits: (messages: SketchMessages, client: string) => boolean
  /** For the model to name a length. */
  readonly maxForesightMs: number
  readonly clock: Clock
}

/** A plan, and what it was made from. An answer may be full for the kind of question or the form of the conversation, too. */
export interface PlannedConversation extends Omit<PlannedAnswer, 'plan'> {
  readonly plan: PlannedFull<'unsuitable' | 'conversation'> | SketchPlan
  /** Generated to foresee the length. */
  readonly foresightTokens: number
}

/** For a reply that is a number; a model that explains itself is cut off. */
const maxForesightTokens = { tokens: 8, words: 24 }
/** Plans requests: asks the LLM how long its answer will be, and the fleet how busy it is. */
export class Planner {
  readonly #options: PlannerOptions
  readonly #planner: AnswerPlanner

  constructor(options: PlannerOptions) {
    const { policy, llm, foresight } = options
    this.#options = options
    this.#planner = new AnswerPlanner({ policy, sketchShares: llm.prompts.sketchShares, foresight, countsSketching: true })
  }

  /**
   * @param mode `auto` or `sketch`
   * @throws BrimError QUEUE_FULL, CANCELED. Where the LLM fails otherwise, the answer is full: it may succeed
   */
  async plan(asked: Asked, mode: BridgeMode, signal: AbortSignal): Promise<PlannedConversation> {
    const { suits, clock } = this.#options
    const isSketchRequested = mode === 'sketch'
    const messages = sketchMessages(asked.messages, maxPromptBytes)
    if (!messages) return { plan: { mode: 'full', reason: 'conversation' }, foresightTokens: 0 }
    if (!isSketchRequested && !suits(messages, clientOf(asked.request.client)))
      return { plan: { mode: 'full', reason: 'unsuitable' }, foresightTokens: 0 }
    const { maxTokens = Number.POSITIVE_INFINITY, isWhole, tokensPerS } = asked.request
    // A client that gets the answer in one piece, or states no rate, waits for all of it.
    const promptTokens = Buffer.byteLength(JSON.stringify(messages)) / bytesPerToken
    const request = { isSketchRequested, maxTokens, promptTokens, tokensPerS: isWhole ? undefined : tokensPerS }
    const early = this.#planner.planEarly(request, this.#situation())
    if (early) return { plan: early, foresightTokens: 0 }

    const askedMs = clock.nowMs()
    const { foreseen, tokens: foresightTokens } = await this.#foresee(asked, signal)
    const waitedS = (clock.nowMs() - askedMs) / 1_000
    return { ...this.#planner.plan(request, foreseen, waitedS, this.#situation()), foresightTokens }
  }

  /** The LLM begins to write a sketch, with which plans that follow count. @returns to be called when it is submitted or given up */
  begin(id: string, expectedTokens: number, plan: Pick<SketchPlan, 'sketchS'>): () => void {
    return this.#planner.begin(id, expectedTokens, plan, this.#options.clock.nowMs())
  }

  /** Of the LLM at its present load; undefined: it has answered nothing yet. */
  get speed(): CloudSpeed | undefined {
    return this.#options.cloud.speed
  }

  /** An answer to a conversation that might have been sketched has ended by itself. @param foreseen undefined: it was sketched, or not foreseen */
  learnLength(foreseen: number | undefined, tokens: number): void {
    this.#planner.recordLength(tokens)
    if (foreseen !== undefined) this.#planner.learnLength(foreseen, tokens)
  }

  /** The fleet learns that plans are made, and has its devices measured. */
  #situation(): PlanSituation {
    const { cloud, expander, clock } = this.#options
    return { speed: cloud.speed, view: expander.view(), nowMs: clock.nowMs() }
  }

  async #foresee(asked: Asked, signal: AbortSignal): Promise<{ readonly foreseen: number | undefined; readonly tokens: number }> {
    const { llm, maxForesightMs, clock } = this.#options
    const { prompts } = llm
    const late = new Watchdog(clock)
    late.allow(maxForesightMs, () => new Error('the model named no length in time'))
    const limits = { sampling: greedy, maxTokens: maxForesightTokens[prompts.foresightUnit] }
    let text = ''
    let tokens = 0
    try {
      for await (const delta of llm.reply(asked, prompts.foresight, limits, AbortSignal.any([signal, late.signal]))) {
        text += delta.text
        tokens += delta.tokenCount
      }
    } catch (error) {
      if (signal.aborted || (error instanceof BrimError && error.code === 'QUEUE_FULL')) throw error
      return { foreseen: undefined, tokens }
    } finally {
      late.close()
    }
    return { foreseen: foreseenTokens(text, prompts), tokens }
  }
}
