import { readerRates } from '../../../../core/kit/base/reader-rates.ts'
import { AnswerPlanner, type PlannedAnswer, type PlanSituation } from '../../../../core/policy/pice/answer-planner.ts'
import { expansionTime } from '../../../../core/policy/pice/expansion-deadline.ts'
import { LengthRatio } from '../../../../core/policy/pice/length-ratio.ts'
import { parseObjectives } from '../../../../core/policy/pice/objectives-text.ts'
import { defaultPlanTerms } from '../../../../core/policy/pice/plan-answer.ts'
import type { SketchPlan } from '../../../../core/policy/pice/sketch-plans.ts'
import { SketchedSentences } from '../../../../core/policy/pice/sketched-sentences.ts'
import { planPolicy, type SketchPolicy } from '../../../baselines/sketch-policies.ts'
import { draw } from '../../scenario/distribution.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { Answer } from '../../world/answer.ts'
import type { Mode } from '../../world/mode.ts'
import type { World } from '../../world/world.ts'
import { answerInFull } from '../cloud.ts'
import { charge, llmOf } from '../llm.ts'
import type { WrittenSketch } from './simulated-expansion.ts'
import { SketchFleet } from './sketch-fleet.ts'
import { writeSketch } from './written-sketch.ts'

/** Of the prompts that ask for a length, a sketch, and the expansion of a line; and of a length. */
const instructionTokens = { foresight: 30, sketch: 110, expand: 90 }
const foresightTokens = 3

/**
 * The LLM answers in full, or sketches and devices expand: dynamic, whichever is better at the present load (PICE); static, by the
 * length of the answer alone.
 */
export function sketchMode(world: World, policy: SketchPolicy): Mode {
  const { simulation } = world
  const settings = world.scenario.policies.pice
  const llm = llmOf(world)
  const fleet = new SketchFleet(world, policy, settings)
  const planner = new AnswerPlanner({
    policy: planPolicy(policy, termsOf(settings)),
    sketchShares: settings.sketchShares,
    foresight: new LengthRatio(),
    countsSketching: settings.countsSketching,
  })
  const situation = (): PlanSituation => ({ speed: llm.speed, view: fleet.view(), nowMs: simulation.nowMs })
  const plannedOf = ({ request: { tokensPerS } }: Answer) => ({
    isSketchRequested: false,
    maxTokens: Number.POSITIVE_INFINITY,
    tokensPerS: settings.readsAlong ? tokensPerS : undefined,
  })
  const chance = { foresight: simulation.random(`${policy} foresight`), sketches: simulation.random(`${policy} sketches`) }
  const foreseen = (tokens: number) => {
    const error = draw(
      { kind: 'lognormal', median: settings.foresightBias, sigma: Math.max(1e-9, settings.foresightError) },
      chance.foresight,
    )
    return Math.max(1, Math.round(tokens * error))
  }

  /** After a reply to the same conversation, which has left its prompt in the cache. */
  const inFull = (answer: Answer, ended?: () => void) =>
    answerInFull(world, answer, settings.sharesPrefix ? answer.request.promptTokens + answer.tokens : 0, ended)

  /**
   * @param cachedTokens that an earlier reply to the same conversation has left
   * @returns stops it: nothing more is called, and what was written is charged
   */
  const reply = (
    answer: Answer,
    instruction: number,
    cachedTokens: number,
    outputTokens: number,
    ended: () => void,
    refused = () => answer.end('queue full'),
  ) => {
    const { sharedTokens } = answer.request
    const promptTokens = answer.request.promptTokens + instruction
    let written = 0
    const chargeWritten = () => charge(world, answer, promptTokens, written)
    const stopReply = llm.answer({
      promptTokens,
      cachedTokens: Math.max(sharedTokens, settings.sharesPrefix ? cachedTokens : 0),
      outputTokens,
      // No reader takes it token by token.
      tokensPerS: readerRates.max,
      token() {
        written += 1
        if (written < outputTokens) return
        chargeWritten()
        ended()
      },
      refused,
    })
    const stop = () => {
      stopReply()
      if (written > 0 && written < outputTokens) chargeWritten()
    }
    answer.workedOnBy(stop)
    return stop
  }

  /** @param planned gets the plan. @param refused the LLM names no length. @returns stops it */
  function foresee(
    answer: Answer,
    cachedTokens: number,
    planned: (plan: PlannedAnswer, named: number) => void,
    refused?: () => void,
  ): () => void {
    const askedMs = simulation.nowMs
    const ended = () => {
      const named = foreseen(answer.request.outputTokens)
      const waitedS = (simulation.nowMs - askedMs) / 1_000
      planned(planner.plan(plannedOf(answer), named, waitedS, situation()), named)
    }
    return reply(answer, instructionTokens.foresight, cachedTokens, foresightTokens, ended, refused)
  }

  /** The plan comes first, then the answer. */
  function plan(answer: Answer): void {
    foresee(answer, 0, ({ plan, expectedTokens }, named) => {
      if (plan.mode === 'sketch') sketch(answer, expectedTokens!, plan)
      else inFull(answer, () => planner.learnLength(named, answer.request.outputTokens))
    })
  }

  /** The LLM begins to answer, and its first token the foresight. If the plan is a sketch, it ends with its sentence. */
  function open(answer: Answer): void {
    const { promptTokens, outputTokens, sharedTokens, tokensPerS } = answer.request
    let sketched: { readonly plan: SketchPlan; readonly expectedTokens: number } | undefined
    let named: number | undefined
    let stopForesight = () => {}
    let isOpen = true
    const close = () => {
      isOpen = false
      charge(world, answer, promptTokens, answer.tokens)
    }
    const planned = ({ plan, expectedTokens }: PlannedAnswer, tokens: number) => {
      if (plan.mode === 'sketch') sketched = { plan, expectedTokens: expectedTokens! }
      else named = tokens
    }
    const stop = llm.answer({
      ...{ promptTokens, outputTokens, tokensPerS, cachedTokens: sharedTokens },
      token() {
        answer.deliver(1)
        if (answer.tokens === outputTokens) {
          stopForesight()
          close()
          answer.end()
          if (named !== undefined) planner.learnLength(named, outputTokens)
        } else if (answer.tokens === 1) stopForesight = foresee(answer, promptTokens, planned, () => {})
        else if (sketched && answer.tokens % Math.round(settings.tokensPerSentence) === 0) {
          stop()
          close()
          sketch(answer, sketched.expectedTokens, sketched.plan)
        }
      },
      refused: () => answer.end('queue full'),
    })
    answer.workedOnBy(() => {
      stop()
      if (isOpen) close()
    })
  }

  function sketch(answer: Answer, expectedTokens: number, plan: SketchPlan): void {
    const { id, atMs, promptTokens } = answer.request
    const miss = (2 * chance.sketches.next() - 1) * settings.sketchMissTokens
    const sketchTokens = Math.max(1, Math.round(plan.sketchTokens + miss))
    const end = planner.begin(String(id), expectedTokens, plan, simulation.nowMs)
    const inFullAfterAll = () => {
      simulation.cancel(late)
      end()
      if (!answer.isAbandoned) inFull(answer)
    }
    const late = simulation.after(1_000 * settings.sketchS, () => {
      stop()
      inFullAfterAll()
    })
    const ended = () => {
      simulation.cancel(late)
      end()
      answer.work.sketchTokens = sketchTokens
      const { tokensPerSentence, candidates, expansionS, sparesDevices } = settings
      const left = { promptTokens, outputTokens: answer.request.outputTokens - answer.tokens }
      const written = writeSketch(left, { sketchTokens, expectedTokens, tokensPerSentence }, chance.sketches)
      if (written.words.length < 2) return void inFull(answer)
      const sentences = new Sentences(answer, written, candidates)
      const { queueS, networkS, expansionS: expandS } = plan
      const times = {
        ...plan,
        expansionS: queueS + networkS + expandS,
        ...(!sparesDevices && { withinS: undefined }),
      }
      const completion = { speed: llm.speed, sentences: written.words.length, tokens: expectedTokens }
      fleet.expand({
        ...expansionTime(times, simulation.nowMs - atMs, 1_000 * expansionS, completion),
        answer,
        sketch: written,
        candidates,
        arrived: (at) => {
          if (sentences.order.arrived(at)) sentences.take(at)
        },
        ended: () => complete(answer, written, sentences),
      })
    }
    const stop = reply(answer, instructionTokens.sketch, promptTokens, sketchTokens, ended, inFullAfterAll)
  }

  /** Devices have written what they will; the LLM writes the rest. */
  function complete(answer: Answer, written: WrittenSketch, sentences: Sentences): void {
    if (answer.isAbandoned) return
    const { order } = sentences
    for (const sentence of order.incomplete) sentences.take(sentence)
    if (order.isEmpty) inFull(answer)
    else fill(answer, written, sentences)
  }

  /** The LLM writes sentences that are missing, several at once. The answer fails with the first that it refuses. */
  function fill(answer: Answer, written: WrittenSketch, sentences: Sentences): void {
    const { promptTokens } = answer.request
    const { sketchTokens, tokens } = written
    const { nextOfLlm } = sentences.order
    if (nextOfLlm.length === 0) return void answer.end()
    const stops: (() => void)[] = []
    let left = nextOfLlm.length
    const ended = () => {
      left -= 1
      if (left > 0) return
      for (const sentence of nextOfLlm) sentences.take(sentence)
      fill(answer, written, sentences)
    }
    let isRefused = false
    const refused = () => {
      isRefused = true
      for (const stop of stops) stop()
      answer.end('queue full')
    }
    for (const sentence of nextOfLlm) {
      if (isRefused) return
      stops.push(reply(answer, sketchTokens + instructionTokens.expand, promptTokens, tokens[sentence]!, ended, refused))
    }
  }

  return {
    begin(answer) {
      const suits = chance.sketches.next() < settings.suitableShare
      if (!suits || planner.planEarly(plannedOf(answer), situation())) answerInFull(world, answer)
      else if (settings.begins) open(answer)
      else plan(answer)
    },
  }
}

/** Delivers the sentences of one answer in the order of their sketch. */
class Sentences {
  readonly order: SketchedSentences
  readonly #answer: Answer
  readonly #tokens: readonly number[]

  constructor(answer: Answer, { tokens }: WrittenSketch, candidates: number) {
    this.order = new SketchedSentences(tokens.length, candidates)
    this.#answer = answer
    this.#tokens = tokens
  }

  take(sentence: number): void {
    this.order.choose(sentence, this.#tokens[sentence]!)
    for (const at of this.order.takeReady()) this.#answer.deliver(this.#tokens[at]!)
  }
}

const termsOf = ({ candidates, overlaps, waitingPerDevice, objectives, tokensPerSentence, minTokens }: PiceSettings) => ({
  ...defaultPlanTerms,
  tokensPerSentence,
  minTokens,
  candidates,
  overlap: overlaps,
  maxWaitingPerDevice: waitingPerDevice,
  objectives: parseObjectives(objectives)!,
})
