import { expansionTime } from '../../../../core/policy/pice/expansion-deadline.ts'
import { LengthRatio } from '../../../../core/policy/pice/length-ratio.ts'
import type { SketchPolicy } from '../../../../core/policy/pice/plan-policy.ts'
import type { SketchPlan } from '../../../../core/policy/pice/sketch-plans.ts'
import { draw } from '../../scenario/distribution.ts'
import type { Answer } from '../../world/answer.ts'
import type { Mode } from '../../world/mode.ts'
import type { World } from '../../world/world.ts'
import { answerInFull } from '../cloud.ts'
import { charge, llmOf } from '../llm.ts'
import type { WrittenSketch } from './pending-expansion.ts'
import { SketchPlanner } from './planner.ts'
import { SketchFleet } from './sketch-fleet.ts'
import { writeSketch } from './written-sketch.ts'

/** Of the prompts that ask for a length, a sketch, and the expansion of a line; and of a length. */
const instructionTokens = { foresight: 30, sketch: 110, expand: 90 }
const foresightTokens = 3
/** Sentences that the LLM writes at once. */
const maxParallel = 8

/**
 * The LLM answers in full, or sketches and devices expand, as cloud-bridge/pice/pice-answer.ts does: dynamic, whichever is better at
 * the present load (PICE); static, by the length of the answer alone.
 */
export function sketchMode(world: World, policy: SketchPolicy): Mode {
  const { simulation } = world
  const settings = world.scenario.policies.pice
  const llm = llmOf(world)
  const fleet = new SketchFleet(world, policy, settings)
  const planner = new SketchPlanner(world, fleet, policy, settings)
  const lengths = new LengthRatio()
  const chance = { foresight: simulation.random(`${policy} foresight`), sketches: simulation.random(`${policy} sketches`) }
  const foreseen = (tokens: number) => {
    const error = draw(
      { kind: 'lognormal', median: settings.foresightBias, sigma: Math.max(1e-9, settings.foresightError) },
      chance.foresight,
    )
    return Math.max(1, Math.round(tokens * error))
  }

  /** After a reply to the same conversation, which has left its prompt in the cache. */
  const inFull = (answer: Answer) => answerInFull(world, answer, settings.sharesPrefix ? answer.request.promptTokens : 0)

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
    const cached = settings.sharesPrefix ? cachedTokens : 0
    const stop = llm.reply({
      promptTokens,
      cachedTokens: Math.max(sharedTokens, cached),
      outputTokens,
      ended() {
        charge(world, answer, promptTokens, outputTokens)
        ended()
      },
      refused,
    })
    return () => {
      const written = stop()
      if (written > 0) charge(world, answer, promptTokens, written)
    }
  }

  function foresee(answer: Answer): void {
    const { outputTokens, tokensPerS } = answer.request
    const askedMs = simulation.nowMs
    reply(answer, instructionTokens.foresight, 0, foresightTokens, () => {
      const named = foreseen(outputTokens)
      const expectedTokens = lengths.correct(named)
      const plan = planner.plan(expectedTokens, tokensPerS, (simulation.nowMs - askedMs) / 1_000)
      if (plan?.mode === 'sketch') sketch(answer, expectedTokens, plan)
      else {
        // It shows how well its length was foreseen.
        lengths.record(named, outputTokens)
        inFull(answer)
      }
    })
  }

  function sketch(answer: Answer, expectedTokens: number, plan: SketchPlan): void {
    const { id, atMs, promptTokens } = answer.request
    const miss = (2 * chance.sketches.next() - 1) * settings.sketchMissTokens
    const sketchTokens = Math.max(1, Math.round(plan.sketchTokens + miss))
    const end = planner.begin(id, expectedTokens, plan)
    const inFullAfterAll = () => {
      simulation.cancel(late)
      end()
      inFull(answer)
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
      const written = writeSketch(answer.request, { sketchTokens, expectedTokens, tokensPerSentence }, chance.sketches)
      const sentences = new Sentences(answer, written)
      const isTaken =
        written.words.length > 1 &&
        fleet.expand({
          ...expansionTime(sparesDevices ? plan : { ...plan, withinS: undefined }, simulation.nowMs - atMs, 1_000 * expansionS),
          answer,
          sketch: written,
          candidates,
          sentence: (at) => sentences.take(at),
          ended: () => complete(answer, written, sentences),
        })
      if (!isTaken) inFull(answer)
    }
    const stop = reply(answer, instructionTokens.sketch, promptTokens, sketchTokens, ended, inFullAfterAll)
  }

  /** Devices have written what they will; the LLM writes the rest. */
  function complete(answer: Answer, written: WrittenSketch, sentences: Sentences): void {
    const { tokens } = written
    const { missing } = sentences
    if (missing.length === tokens.length) inFull(answer)
    else if (missing.length === 0) answer.end()
    else fill(answer, written, sentences)
  }

  /** The LLM writes sentences that are missing, several at once. The answer fails with the first that it refuses. */
  function fill(answer: Answer, { sketchTokens, tokens }: WrittenSketch, sentences: Sentences): void {
    const { promptTokens } = answer.request
    const { missing } = sentences
    const stops: (() => void)[] = []
    let left = missing.length
    const writeNext = (): void => {
      const sentence = missing.shift()
      if (sentence === undefined) return
      const ended = () => {
        sentences.take(sentence)
        left -= 1
        if (left === 0) answer.end()
        else writeNext()
      }
      const refused = () => {
        missing.length = 0
        for (const stop of stops) stop()
        answer.end('queue full')
      }
      stops.push(reply(answer, sketchTokens + instructionTokens.expand, promptTokens, tokens[sentence]!, ended, refused))
    }
    for (let at = 0; at < maxParallel; at += 1) writeNext()
  }

  return {
    begin(answer) {
      const suits = chance.sketches.next() < settings.suitableShare
      if (suits && !planner.isFullAnyway(answer.request.tokensPerS)) foresee(answer)
      else answerInFull(world, answer)
    },
  }
}

/** The sentences of one answer, which come in any order and are delivered in that of their sketch. Mutable. */
class Sentences {
  readonly #answer: Answer
  readonly #tokens: readonly number[]
  readonly #taken = new Set<number>()
  #delivered = 0

  constructor(answer: Answer, { tokens }: WrittenSketch) {
    this.#answer = answer
    this.#tokens = tokens
  }

  get missing(): number[] {
    return this.#tokens.flatMap((_, at) => (this.#taken.has(at) ? [] : [at]))
  }

  take(sentence: number): void {
    this.#taken.add(sentence)
    for (; this.#taken.has(this.#delivered); this.#delivered += 1) this.#answer.deliver(this.#tokens[this.#delivered]!)
  }
}
