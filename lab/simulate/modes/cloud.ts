import type { EngineAnswer } from '../serving/engine.ts'
import type { Answer } from '../world/answer.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { PacedSide } from './disco/paced-side.ts'
import { charge, llmOf } from './llm.ts'

/** The cloud's model answers alone, or the API server in its place. */
export function cloudMode(world: World): Mode {
  return { begin: (answer) => answerInFull(world, answer) }
}

/**
 * What is left of the answer.
 * @param cachedTokens of the prompt's beginning, that a reply to the same conversation has left
 * @param ended the last token is there
 */
export function answerInFull(world: World, answer: Answer, cachedTokens = 0, ended?: () => void): void {
  const { server, simulation } = world
  const { id, promptTokens, outputTokens, sharedTokens } = answer.request
  const full = new FullAnswer(world, answer, Math.max(sharedTokens, cachedTokens), ended)
  if (server) {
    const random = simulation.random(`server ${id}`)
    const run = { contextTokens: promptTokens, tokens: outputTokens, token: () => full.token(), failed: () => full.refused() }
    new PacedSide(simulation, () => server.draw(random)).start(run)
  } else answer.workedOnBy(llmOf(world).answer(full))
}

/** A hundred thousand of them may wait: it has few fields, and no functions of its own. */
class FullAnswer implements EngineAnswer {
  readonly cachedTokens: number
  readonly #world: World
  readonly #answer: Answer
  readonly #onEnd: (() => void) | undefined
  /** That the answer has already. */
  readonly #begunTokens: number

  constructor(world: World, answer: Answer, cachedTokens: number, onEnd: (() => void) | undefined) {
    this.#world = world
    this.#answer = answer
    this.cachedTokens = cachedTokens
    this.#onEnd = onEnd
    this.#begunTokens = answer.tokens
  }

  get promptTokens() {
    return this.#answer.request.promptTokens + this.#begunTokens
  }

  get outputTokens() {
    return this.#answer.request.outputTokens - this.#begunTokens
  }

  get tokensPerS() {
    return this.#answer.request.tokensPerS
  }

  token(): void {
    const answer = this.#answer
    if (answer.isAbandoned) return
    answer.deliver(1)
    if (answer.tokens < answer.request.outputTokens) return
    charge(this.#world, answer, this.promptTokens, this.outputTokens)
    answer.end()
    this.#onEnd?.()
  }

  refused(): void {
    this.#answer.end('queue full')
  }
}
