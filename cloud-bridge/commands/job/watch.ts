import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { bridgeClient } from '../bridge-client.ts'
import { followJob } from './follow.ts'
import { idOption } from './job.ts'

export const command = defineCommand({
  examples: [['brim job watch 3f9a1c07-42', 'its text on stdout, its history on stderr']],
  options: { id: idOption, ...bridgeOptions },
  async run({ id, json, ...options }, io) {
    await followJob(await bridgeClient(options, io), id, json, io)
  },
})
