import { z } from 'zod'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'

export const command = defineCommand({
  examples: [['brim bridge key revoke 3f9a11c0', 'an id from "brim bridge key list"']],
  options: { key: z.string().describe('id of the key, the first column of "brim bridge key list"'), ...administrationOptions },
  async run({ json, key, ...options }, io) {
    await administer(options, io, (admin) => admin.revokeKey(key))
    io.out(json ? JSON.stringify({ id: key, revoked: true }) : `key ${key} revoked`)
  },
})
