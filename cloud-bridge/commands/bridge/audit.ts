import { z } from 'zod'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../administration.ts'
import { columns } from '../columns.ts'

export const command = defineCommand({
  examples: [['brim bridge audit --limit 20', 'the latest entries']],
  options: { limit: z.int().min(1).default(100).describe('max entries'), ...administrationOptions },
  async run({ limit, json, ...options }, io) {
    const audit = await administer(options, io, (admin) => admin.audit(limit))
    if (json) return io.out(JSON.stringify({ audit }))
    const rows = audit.map(({ at, actor, from, action, subject, outcome, count, detail }) => {
      const what = [action, subject, outcome, String(count), JSON.stringify(detail)]
      return [at, actor, from ?? '-', ...what]
    })
    io.out(columns([['AT', 'ACTOR', 'FROM', 'ACTION', 'SUBJECT', 'OUTCOME', 'COUNT', 'DETAIL'], ...rows]))
  },
})
