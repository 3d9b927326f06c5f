import { z } from 'zod'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'
import { pinsText } from './status.ts'

export const command = defineCommand({
  examples: [['brim bridge tls withdraw <pin>', 'as "brim bridge tls status" shows it']],
  options: { pin: z.string().min(1).describe('pin of the announced key'), ...administrationOptions },
  async run({ pin, json, ...options }, io) {
    const status = await administer(options, io, async (admin) => {
      await admin.withdrawPin(pin)
      return admin.tls()
    })
    io.out(json ? JSON.stringify(status) : pinsText(status))
  },
})
