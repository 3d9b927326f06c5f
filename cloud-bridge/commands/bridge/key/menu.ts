import type { Menu } from '../../../../core/kit/cli/command.ts'

/** `brim bridge key …` */
export const menu: Menu = {
  examples: [
    ['brim bridge key create --name monitoring > key', 'for a program that only reads'],
    ['brim bridge key list', 'names, roles and quotas'],
  ],
  commands: {
    create: ['create an API key for an operator or a program, and print it once', () => import('./create.ts')],
    list: ['list the keys, without their secrets', () => import('./list.ts')],
    'revoke <key>': ['revoke an API key: the bridge refuses it from now on', () => import('./revoke.ts')],
  },
}
