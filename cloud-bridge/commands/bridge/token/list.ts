import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'
import { columns } from '../../columns.ts'

export const command = defineCommand({
  examples: [['brim bridge token list', 'which tokens are valid, and for what']],
  options: administrationOptions,
  async run({ json, ...options }, io) {
    const tokens = await administer(options, io, (admin) => admin.tokens())
    if (json) return io.out(JSON.stringify({ tokens }))
    const rows = tokens.map(({ id, group, usesLeft, approve, expiresAt, revokedAt }) => {
      const state = revokedAt === null ? `until ${expiresAt}` : `revoked ${revokedAt}`
      return [id, group, String(usesLeft), approve ? 'yes' : 'no', state]
    })
    io.out(columns([['TOKEN', 'GROUP', 'USES LEFT', 'APPROVES', 'STATE'], ...rows]))
  },
})
