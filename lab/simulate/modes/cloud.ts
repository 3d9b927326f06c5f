import type { Answer } from '../world/answer.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { PacedSide } from './disco/paced-side.ts'
import { charge, llmOf } from './llm.ts'

/** The cloud's model answers alone, or the API server in its place. */
export function cloudMode(world: World): Mode {
  return { begin: (answer) => answerInFull(world, answer) }
}

/** @param cachedTokens of the prompt's beginning, that a reply to the same conversation has left */
export function answerInFull(world: World, answer: Answer, cachedTokens = 0): void {
  const { server, simulation } = world
  const { id, promptTokens, outputTokens, sharedTokens } = answer.request
  const token = () => {
    answer.deliver(1)
    if (answer.tokens < outputTokens) return
    charge(world, answer, promptTokens, outputTokens)
    answer.end()
  }
  const refused = () => answer.end('queue full')
  if (server) {
    const random = simulation.random(`server ${id}`)
    const run = { contextTokens: promptTokens, tokens: outputTokens, token, failed: refused }
    new PacedSide(simulation, () => server.draw(random)).start(run)
    return
  }
  llmOf(world).answer({
    promptTokens,
    outputTokens,
    cachedTokens: Math.max(sharedTokens, cachedTokens),
    reader: answer.reader,
    token,
    refused,
  })
}
