import { z } from 'zod'
import { defineCommand } from '../../../core/cli/command.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'
import { idOption, jobPath } from './job.ts'

export const command = defineCommand({
  examples: [['brim job cancel 3f9a1c07-42', 'queued or running']],
  options: { id: idOption, ...bridgeOptions },
  async run({ id, json, ...options }, io) {
    const body = await (await bridgeClient(options, io)).post(`${jobPath(id)}/cancel`, {})
    const { canceled, state } = z.looseObject({ canceled: z.boolean(), state: z.string() }).parse(body)
    if (json) io.out(JSON.stringify(body))
    else io.out(canceled ? `job ${id} is canceled` : `job ${id} had already ended: ${state}`)
  },
})
