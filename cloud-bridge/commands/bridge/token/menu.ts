import type { Menu } from '../../../../core/kit/cli/command.ts'

/** `brim bridge token …` */
export const menu: Menu = {
  examples: [
    ['brim bridge token create --approve --out token', 'for one device, valid for a day'],
    ['brim bridge token list', 'which tokens are valid, and for what'],
  ],
  commands: {
    create: ['create an enrolment token; the bridge stores only its hash', () => import('./create.ts')],
    list: ['list the tokens, without their secrets', () => import('./list.ts')],
    'revoke <token>': [
      'revoke an enrolment token: no further device can enrol with it, those that have stay enrolled',
      () => import('./revoke.ts'),
    ],
  },
}
