import { options, runBridge } from '../../../cloud-bridge/commands/bridge/run.ts'
import { systemClock } from '../../../core/base/clock.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { paceOptions } from './pace-options.ts'

/** `brim bench slow-bridge`: a bridge that stands for a cloud with a larger model. */
export const command = defineCommand({
  examples: [
    ['brim bench slow-bridge --bundle qwen --step-ms 20 --row-ms 1', 'at most 48 tokens per second of one answer, 444 of 16'],
  ],
  options: { ...options, ...paceOptions },
  async run({ stepMs, rowMs, ...given }, io) {
    const [{ openServedModel }, { pacedModel }] = await Promise.all([
      import('../../../cloud-bridge/serving/open-served-model.ts'),
      import('./paced-model.ts'),
    ])
    await runBridge(given, io, async (bundle) => {
      const opened = await openServedModel(bundle)
      return { ...opened, served: pacedModel(opened.served, { stepMs, rowMs }, systemClock) }
    })
  },
})
