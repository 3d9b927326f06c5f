import type { Menu } from '../../../core/kit/cli/command.ts'

/** `brim bundle …` */
export const menu: Menu = {
  examples: [
    ['brim bundle keygen release.key', 'a signing key; prints the public key that devices trust'],
    ['brim bundle sign qwen --key release.key', 'sign a bundle'],
    ['brim bundle push qwen', 'upload it to the bridge, which devices install it from'],
    ['brim bundle list', 'what devices can install from the bridge'],
  ],
  commands: {
    'keygen <file>': ['make a key that signs bundles and releases', () => import('./keygen.ts')],
    'sign <path>': ['sign a bundle, or the archive of a release', () => import('./sign.ts')],
    'push <path>': ['upload a bundle or the archive of a release to the bridge', () => import('./push.ts')],
    list: ['list the bundles and releases that devices can install from the bridge', () => import('./list.ts')],
  },
}
