import { z } from 'zod'
import { defineCommand } from '../../../core/cli/command.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'
import { idOption, jobPath } from './job.ts'

export const command = defineCommand({
  examples: [['brim job retry 3f9a1c07-42', 'prints the id of the new job']],
  options: { id: idOption, ...bridgeOptions },
  async run({ id, json, ...options }, io) {
    const body = await (await bridgeClient(options, io)).post(`${jobPath(id)}/retry`, {})
    io.out(json ? JSON.stringify(body) : z.looseObject({ id: z.string() }).parse(body).id)
  },
})
