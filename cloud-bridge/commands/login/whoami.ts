import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { bridgeClient } from '../bridge-client.ts'

/** `brim whoami` */
export const command = defineCommand({
  examples: [['brim whoami', 'the key of the current login']],
  options: bridgeOptions,
  async run({ json, ...options }, io) {
    const { raw, value } = await (await bridgeClient(options, io)).call(adminOperations.whoami, {})
    if (json) return io.out(JSON.stringify(raw))
    const { name, role, expiresAt, bridge, quota } = value
    io.out(visibleLine(`${name}, ${role}, at bridge ${bridge}`))
    if (expiresAt !== null) io.out(`expires   ${expiresAt}`)
    if (quota.requestsPerMinute !== null) io.out(`requests  ${quota.requestsLeft} left of ${quota.requestsPerMinute} a minute`)
    if (quota.jobsPerDay !== null) io.out(`jobs      ${quota.jobsLeft} left of ${quota.jobsPerDay} today (UTC)`)
  },
})
