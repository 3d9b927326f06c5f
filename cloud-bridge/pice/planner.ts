import type { BridgeMode } from '../../core/base/answer-modes.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { greedy } from '../../core/engine/sampler.ts'
import { foreseenTokens } from '../../core/pice/foresight.ts'
import type { CloudMeter } from '../../core/policy/pice/cloud-meter.ts'
import { type AnswerPlan, type FullReason, isFinal, longTokens, type Question } from '../../core/policy/pice/plan-answer.ts'
import type { PlanPolicy } from '../../core/policy/pice/plan-policy.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { SketchesUnderWay } from '../../core/policy/pice/sketches-under-way.ts'
import type { CloudSpeed } from '../../core/policy/pice/state.ts'
import { Watchdog } from '../../core/upstream/watchdog.ts'
import { type SketchMessages, sketchMessages } from './conversation.ts'
import type { Expander } from './expander.ts'
import type { Foresight } from './length-memory.ts'
import type { Asked, Llm } from './llm.ts'

export interface PlannerOptions {
  readonly llm: Llm
  readonly cloud: Pick<CloudMeter, 'speed'>
  readonly expander: Pick<Expander, 'view'>
  readonly foresight: Foresight
  readonly policy: PlanPolicy
  /** Whether answers to such a conversation gain by a sketch: code and mathematics do not. */
  readonly suits: (messages: SketchMessages) => boolean
  /** Size of a conversation that small models get, in bytes. */
  readonly maxPromptBytes: number
  /** For the model to name a length. */
  readonly maxForesightMs: number
  readonly clock: Clock
}

/**
 * Why an answer is full beside the reasons of the plan: the client's limit, the kind of question, the form of the conversation, a
 * model that names no length, an LLM of unknown speed.
 */
export type PlannedFull = {
  readonly mode: 'full'
  readonly reason: FullReason | 'max-tokens' | 'unsuitable' | 'conversation' | 'foresight' | 'unmeasured'
  readonly fullS?: number
  readonly predictedS?: number
}

/** A plan, and what it was made from. Tokens of the LLM. */
export interface Planned {
  readonly plan: PlannedFull | SketchPlan
  /** As the model foresaw it; undefined: it was not asked, or named no length. */
  readonly foreseenTokens?: number | undefined
  /** l: the same, corrected and within the client's limit. */
  readonly expectedTokens?: number
  /** Generated to foresee the length. */
  readonly foresightTokens: number
  /** The conversation as a job carries it. */
  readonly messages?: SketchMessages
}

/** For a reply that is a number; a model that explains itself is cut off. */
const foresightTokens = { tokens: 8, words: 24 }
/** Of an answer whose length the model does not name, if the client wants a sketch. */
const typicalTokens = 200
/** A model of unknown speed, if the client wants a sketch: it decides only how long devices are given. */
const typicalSpeed: CloudSpeed = { waitS: 0, ttftS: 1, tpotS: 0.05 }

/** Decides how requests are answered: asks the LLM how long its answer will be, then the policy. */
export class Planner {
  readonly #options: PlannerOptions
  /** Sketches that are being written. */
  readonly #sketching = new SketchesUnderWay()

  constructor(options: PlannerOptions) {
    this.#options = options
  }

  /**
   * @param mode `auto` or `sketch`
   * @throws BrimError QUEUE_FULL, CANCELED. Where the LLM fails otherwise, the answer is full: it may succeed
   */
  async plan(asked: Asked, mode: BridgeMode, signal: AbortSignal): Promise<Planned> {
    const { maxPromptBytes, suits, cloud } = this.#options
    const isSketchRequested = mode === 'sketch'
    const messages = sketchMessages(asked.messages, maxPromptBytes)
    if (!messages) return without('conversation')
    if (!isSketchRequested && !suits(messages)) return without('unsuitable')
    const { maxTokens = Number.POSITIVE_INFINITY, isWhole, tokensPerS: stated } = asked.request
    // Who gets it in one piece, or does not say how fast he reads, waits for all of it.
    const tokensPerS = isWhole ? undefined : stated
    const early = this.#plan({ expectedTokens: Math.min(longTokens, maxTokens), isSketchRequested, tokensPerS })
    if (early?.mode === 'full' && isFinal(early.reason)) return { plan: early, foresightTokens: 0 }

    const askedMs = this.#options.clock.nowMs()
    const foresight = await this.#foresee(asked, signal)
    const { foreseen } = foresight
    if (foreseen === undefined && !isSketchRequested) return { ...without('foresight'), foresightTokens: foresight.tokens }
    const expectedTokens = foreseen === undefined ? typicalTokens : this.#options.foresight.correct(foreseen)
    const known = { foreseenTokens: foreseen, expectedTokens, foresightTokens: foresight.tokens, messages }
    // It would be cut off in the middle of what devices write.
    if (expectedTokens > maxTokens) return { ...known, ...without('max-tokens') }
    if (!cloud.speed && !isSketchRequested) return { ...known, ...without('unmeasured') }
    const waitedS = (this.#options.clock.nowMs() - askedMs) / 1_000
    const question = { expectedTokens, isSketchRequested, tokensPerS, waitedS }
    return { ...known, plan: this.#plan(question) ?? this.#policyFor(question, typicalSpeed) }

    function without(reason: PlannedFull['reason']): Planned {
      return { plan: { mode: 'full', reason }, foresightTokens: 0 }
    }
  }

  /** The LLM begins to write a sketch, with which plans that follow count. @returns to be called when it is submitted or given up */
  begin(id: string, expectedTokens: number, plan: Pick<SketchPlan, 'sketchS'>): () => void {
    return this.#sketching.begin(id, expectedTokens, plan, this.#options.clock.nowMs())
  }

  /** A full answer has ended by itself. */
  learnLength(foreseen: number, tokens: number): void {
    this.#options.foresight.record(foreseen, tokens)
  }

  #plan(question: Question): AnswerPlan | undefined {
    const { cloud, expander } = this.#options
    const { speed } = cloud
    if (speed) return this.#policyFor(question, speed)
    // The fleet learns that plans are made, and has its devices measured meanwhile.
    expander.view()
    return undefined
  }

  #policyFor(question: Question, speed: CloudSpeed): AnswerPlan {
    const { policy, expander, llm, clock } = this.#options
    const { devices, waiting } = expander.view()
    return policy(
      question,
      { devices, waiting: [...waiting, ...this.#sketching.waiting(clock.nowMs())] },
      speed,
      llm.prompts.sketchShares,
    )
  }

  async #foresee(asked: Asked, signal: AbortSignal): Promise<{ readonly foreseen: number | undefined; readonly tokens: number }> {
    const { llm, maxForesightMs, clock } = this.#options
    const { prompts } = llm
    const late = new Watchdog(clock)
    late.allow(maxForesightMs, () => new Error('the model named no length in time'))
    const limits = { sampling: greedy, maxTokens: foresightTokens[prompts.foresightUnit] }
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
