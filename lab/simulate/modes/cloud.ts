import type { Mode } from '../world/mode.ts'
import { leastLoaded, type World } from '../world/world.ts'

/** The cloud's model answers alone. */
export function cloudMode(world: World): Mode {
  return {
    begin(answer) {
      const { promptTokens, outputTokens, sharedTokens } = answer.request
      leastLoaded(world).answer({
        promptTokens,
        outputTokens,
        cachedTokens: sharedTokens,
        reader: answer.reader,
        token() {
          answer.deliver(1)
          if (answer.tokens < outputTokens) return
          answer.work.serverPromptTokens = promptTokens
          answer.work.serverOutputTokens = outputTokens
          answer.end()
        },
        refused: () => answer.end('queue full'),
      })
    },
  }
}
