import { z } from 'zod'
import { columns } from '../../../../core/kit/cli/columns.ts'
import type { Menu } from '../../../../core/kit/cli/command.ts'
import { adminOperations } from '../../../../core/wire/protocol/http/admin.ts'
import { adminCommand } from '../../request-command.ts'

const list = adminCommand({
  examples: [['brim bridge token list', 'which tokens are valid, and for what']],
  request: (client) => client.call(adminOperations.tokens, {}),
  text: ({ tokens }) =>
    columns([
      ['TOKEN', 'GROUP', 'USES LEFT', 'APPROVES', 'STATE'],
      ...tokens.map(({ id, group, usesLeft, approve, expiresAt, revokedAt }) => {
        const state = revokedAt === null ? `until ${expiresAt}` : `revoked ${revokedAt}`
        return [id, group, String(usesLeft), approve ? 'yes' : 'no', state]
      }),
    ]),
})

const revoke = adminCommand({
  examples: [['brim bridge token revoke 3f9a11c0', 'an id from "brim bridge token list"']],
  options: { token: z.string().describe('id of the token, the first column of "brim bridge token list"') },
  request: (client, { token }) => client.call(adminOperations.revokeToken, { params: { id: token } }),
  text: (_, { token }) => `token ${token} revoked`,
})

/** `brim bridge token …` */
export const menu: Menu = {
  examples: [
    ['brim bridge token create --approve --out token', 'for one device, valid for a day'],
    ['brim bridge token list', 'which tokens are valid, and for what'],
  ],
  commands: {
    create: ['create an enrolment token; the bridge stores only its hash', () => import('./create.ts')],
    list: ['list the tokens, without their secrets', () => ({ command: list })],
    'revoke <token>': [
      'revoke an enrolment token: no further device can enrol with it, those that have stay enrolled',
      () => ({ command: revoke }),
    ],
  },
}
