import { defineCommand } from '../../../core/kit/cli/command.ts'
import { controlOptions, controlRollout } from './control.ts'

export const command = defineCommand({
  examples: [['brim rollout resume 3f9a1c07', 'paused by hand, or after its first group']],
  options: controlOptions,
  run: (options, io) => controlRollout('resume', options, io),
})
