import type { Menu } from '../../../../core/kit/cli/command.ts'

/** `brim bridge tls …` */
export const menu: Menu = {
  examples: [
    ['brim bridge tls announce new-cert.pem', '1. devices accept the key of the new certificate too'],
    ['brim bridge tls status', '2. wait until no device is missing'],
    ['mv new-cert.pem cert.pem && mv new-key.pem key.pem', '3. replace the files; the bridge reads them within 5 s'],
  ],
  commands: {
    status: ['show the TLS keys, and the devices that do not accept the next one yet', () => import('./status.ts')],
    'announce <cert>': [
      'tell devices the next TLS key, so that they accept it beside the present one',
      () => import('./announce.ts'),
    ],
    'withdraw <pin>': ['no longer announce a TLS key', () => import('./withdraw.ts')],
  },
}
