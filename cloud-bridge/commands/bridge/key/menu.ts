import type { Menu } from '../../../../core/cli/command.ts'

/** `brim bridge key …` */
export const menu: Menu = {
  examples: [
    ['brim bridge key create --name monitoring > key', 'for a program that only reads'],
    ['brim bridge key list', 'names, roles and quotas'],
  ],
  commands: {
    create: ['print a new API key; the bridge stores only its hash', () => import('./create.ts')],
    list: ['list the keys, without their secrets', () => import('./list.ts')],
    'revoke <key>': ['revoke a key', () => import('./revoke.ts')],
  },
}
