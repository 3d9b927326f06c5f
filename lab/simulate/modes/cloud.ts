import type { Answer } from '../world/answer.ts'
import type { Mode } from '../world/mode.ts'
import { leastLoaded, type World } from '../world/world.ts'
import { PacedSide } from './disco/paced-side.ts'

/** The cloud's model answers alone, or the API server in its place. */
export function cloudMode(world: World): Mode {
  const { server, simulation, scenario } = world
  const { prompt = 0, output = 0 } = (server ? scenario.server : scenario.cloud)?.dollarsPerToken ?? {}
  const token = (answer: Answer) => () => {
    const { promptTokens, outputTokens } = answer.request
    answer.deliver(1)
    if (answer.tokens < outputTokens) return
    answer.work.serverPromptTokens = promptTokens
    answer.work.serverOutputTokens = outputTokens
    answer.work.dollars += prompt * promptTokens + output * outputTokens
    answer.end()
  }
  const refused = (answer: Answer) => () => answer.end('queue full')
  if (server)
    return {
      begin(answer) {
        const { id, promptTokens, outputTokens } = answer.request
        const random = simulation.random(`server ${id}`)
        const run = { contextTokens: promptTokens, tokens: outputTokens, token: token(answer), failed: refused(answer) }
        new PacedSide(simulation, () => server.draw(random)).start(run)
      },
    }
  return {
    begin(answer) {
      const { promptTokens, outputTokens, sharedTokens } = answer.request
      leastLoaded(world).answer({
        promptTokens,
        outputTokens,
        cachedTokens: sharedTokens,
        reader: answer.reader,
        token: token(answer),
        refused: refused(answer),
      })
    },
  }
}
