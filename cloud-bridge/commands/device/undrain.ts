import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { commandDevices, commandOptions, commandUsage } from './command-devices.ts'

export const command = defineCommand({
  usage: commandUsage,
  examples: [['brim device undrain jetson-01', 'back to work']],
  options: {
    ...commandOptions,
    wait: z
      .boolean()
      .describe("wait for the device's reply; --no-wait: return once the bridge has stored the command")
      .optional(),
  },
  run: (options, io) => commandDevices('undrain', options, io, async () => ({ text: 'takes jobs again', json: {} })),
})
