import { defineCommand } from '../../../core/kit/cli/command.ts'
import { controlOptions, controlRollout } from './control.ts'

export const command = defineCommand({
  examples: [['brim rollout pause 3f9a1c07', 'devices that have started go on']],
  options: controlOptions,
  run: (options, io) => controlRollout('pause', options, io),
})
