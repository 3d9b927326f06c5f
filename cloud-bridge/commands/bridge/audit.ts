import { z } from 'zod'
import { columns } from '../../../core/kit/cli/columns.ts'
import { adminOperations } from '../../../core/wire/protocol/http/admin.ts'
import { adminCommand } from '../request-command.ts'

export const command = adminCommand({
  examples: [['brim bridge audit --limit 20', 'the latest entries']],
  options: { limit: z.int().min(1).default(100).describe('max entries') },
  request: (client, { limit }) => client.call(adminOperations.audit, { query: { limit } }),
  text: ({ audit }) =>
    columns([
      ['AT', 'ACTOR', 'FROM', 'ACTION', 'SUBJECT', 'OUTCOME', 'COUNT', 'DETAIL'],
      ...audit.map(({ at, actor, from, action, subject, outcome, count, detail }) => {
        return [at, actor, from ?? '-', action, subject, outcome, String(count), JSON.stringify(detail)]
      }),
    ]),
})
