import { z } from 'zod'
import { columns } from '../../../../core/kit/cli/columns.ts'
import type { Menu } from '../../../../core/kit/cli/command.ts'
import { adminOperations } from '../../../../core/wire/protocol/http/admin.ts'
import { adminCommand } from '../../request-command.ts'

const list = adminCommand({
  examples: [['brim bridge key list', 'names, roles and quotas']],
  request: (client) => client.call(adminOperations.keys, {}),
  text: ({ keys }) =>
    columns([
      ['KEY', 'NAME', 'ROLE', 'REQUESTS/MIN', 'JOBS/DAY', 'CREATED', 'EXPIRES', 'REVOKED'],
      ...keys.map(({ id, name, role, requestsPerMinute, jobsPerDay, createdAt, expiresAt, revokedAt }) => {
        const quota = [requestsPerMinute, jobsPerDay].map((limit) => String(limit ?? '-'))
        return [id, name, role, ...quota, createdAt, expiresAt ?? '-', revokedAt ?? '-']
      }),
    ]),
})

const revoke = adminCommand({
  examples: [['brim bridge key revoke 3f9a11c0', 'an id from "brim bridge key list"']],
  options: { key: z.string().describe('id of the key, the first column of "brim bridge key list"') },
  request: (client, { key }) => client.call(adminOperations.revokeKey, { params: { id: key } }),
  text: (_, { key }) => `key ${key} revoked`,
})

/** `brim bridge key …` */
export const menu: Menu = {
  examples: [
    ['brim bridge key create --name monitoring > key', 'for a program that only reads'],
    ['brim bridge key list', 'names, roles and quotas'],
  ],
  commands: {
    create: ['create an API key for an operator or a program, and print it once', () => import('./create.ts')],
    list: ['list the keys, without their secrets', () => ({ command: list })],
    'revoke <key>': ['revoke an API key: the bridge refuses it from now on', () => ({ command: revoke })],
  },
}
