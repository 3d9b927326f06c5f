import { options, runAgent } from '../../../agent/commands/run.ts'
import { systemClock } from '../../../core/base/clock.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { paceOptions } from './pace-options.ts'

/** `brim bench slow-agent`: an agent that stands for a device with larger small models. */
export const command = defineCommand({
  examples: [
    [
      'brim bench slow-agent --slm qwen-small --id jetson-01 --step-ms 20 --row-ms 1',
      'at most 48 tokens per second of one answer',
    ],
  ],
  options: { ...options, ...paceOptions },
  async run({ stepMs, rowMs, ...given }, io) {
    const [{ openLocalModel }, { pacedChain }] = await Promise.all([
      import('../../../agent/slm/local-model.ts'),
      import('./paced-model.ts'),
    ])
    await runAgent(given, io, async (bundle) => {
      const opened = await openLocalModel(bundle)
      return { ...opened, chain: pacedChain(opened.chain, { stepMs, rowMs }, systemClock) }
    })
  },
})
