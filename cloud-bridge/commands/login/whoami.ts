import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { bridgeCommand } from '../request-command.ts'

/** `brim whoami` */
export const command = bridgeCommand({
  examples: [['brim whoami', 'the key of the current login']],
  request: (client) => client.call(adminOperations.whoami, {}),
  text({ name, role, expiresAt, bridge, quota }) {
    const lines = [visibleLine(`${name}, ${role}, at bridge ${bridge}`)]
    if (expiresAt !== null) lines.push(`expires   ${expiresAt}`)
    if (quota.requestsPerMinute !== null)
      lines.push(`requests  ${quota.requestsLeft} left of ${quota.requestsPerMinute} a minute`)
    if (quota.jobsPerDay !== null) lines.push(`jobs      ${quota.jobsLeft} left of ${quota.jobsPerDay} today (UTC)`)
    return lines.join('\n')
  },
})
