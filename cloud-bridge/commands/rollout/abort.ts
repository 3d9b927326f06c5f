import { defineCommand } from '../../../core/kit/cli/command.ts'
import { controlOptions, controlRollout } from './control.ts'

export const command = defineCommand({
  examples: [['brim rollout abort 3f9a1c07', 'the others are left as they are']],
  notes: 'A device that had finished before its job was canceled keeps what it has installed.',
  options: controlOptions,
  run: (options, io) => controlRollout('abort', options, io),
})
