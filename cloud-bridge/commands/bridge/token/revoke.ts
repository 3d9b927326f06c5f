import { z } from 'zod'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'

export const command = defineCommand({
  examples: [['brim bridge token revoke 3f9a11c0', 'an id from "brim bridge token list"']],
  options: {
    token: z.string().describe('id of the token, the first column of "brim bridge token list"'),
    ...administrationOptions,
  },
  async run({ json, token, ...options }, io) {
    await administer(options, io, (admin) => admin.revokeToken(token))
    io.out(json ? JSON.stringify({ id: token, revoked: true }) : `token ${token} revoked`)
  },
})
