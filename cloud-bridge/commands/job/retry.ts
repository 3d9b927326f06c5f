import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import { bridgeClient } from '../bridge-client.ts'
import { idOption } from './job.ts'

export const command = defineCommand({
  examples: [['brim job retry 3f9a1c07-42', 'prints the id of the new job']],
  options: { id: idOption, ...bridgeOptions },
  async run({ id, json, ...options }, io) {
    const { raw, value } = await (await bridgeClient(options, io)).call(jobOperations.retry, { params: { id } })
    io.out(json ? JSON.stringify(raw) : visibleLine(value.id))
  },
})
