import { z } from 'zod'
import { defineCommand } from '../../../core/cli/command.ts'
import { adminOperations } from '../../../core/protocol/http/admin.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'

const left = z.number().nullable()
export const Whoami = z.looseObject({
  id: z.string(),
  name: z.string(),
  role: z.string(),
  bridge: z.string(),
  quota: z.object({ requestsPerMinute: left, requestsLeft: left, jobsPerDay: left, jobsLeft: left }),
})

/** `brim whoami` */
export const command = defineCommand({
  examples: [['brim whoami', 'at the bridge of the current login']],
  options: bridgeOptions,
  async run({ json, ...options }, io) {
    const body = await (await bridgeClient(options, io)).get(adminOperations.whoami.path)
    if (json) return io.out(JSON.stringify(body))
    const { name, role, bridge, quota } = Whoami.parse(body)
    io.out(`${name}, ${role}, at bridge ${bridge}`)
    if (quota.requestsPerMinute !== null) io.out(`requests  ${quota.requestsLeft} left of ${quota.requestsPerMinute} a minute`)
    if (quota.jobsPerDay !== null) io.out(`jobs      ${quota.jobsLeft} left of ${quota.jobsPerDay} today (UTC)`)
  },
})
