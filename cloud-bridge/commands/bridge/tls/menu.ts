import { z } from 'zod'
import type { Menu } from '../../../../core/kit/cli/command.ts'
import { adminOperations, type TlsStatus } from '../../../../core/wire/protocol/http/admin.ts'
import { pinOfFile } from '../../pin-of-file.ts'
import { adminCommand } from '../../request-command.ts'

/** Names of devices that are printed. */
const maxNames = 20

/** One line per key. */
function pinsText({ present, next, approved }: TlsStatus): string {
  const lines = next.map(({ pin, announcedAt, missing }) => {
    const names = missing.slice(0, maxNames).join(', ') + (missing.length > maxNames ? ', …' : '')
    const ready = `${approved - missing.length} of ${approved} devices accept it`
    return `next     ${pin}  announced ${announcedAt}, ${ready}${missing.length === 0 ? '' : `; missing: ${names}`}`
  })
  return [`present  ${present ?? 'none, or unknown here'}`, ...lines].join('\n')
}

const status = adminCommand({
  examples: [['brim bridge tls status', 'before the files of the certificate are replaced']],
  request: (client) => client.call(adminOperations.tls, {}),
  text: pinsText,
})

const announce = adminCommand({
  examples: [['brim bridge tls announce new-cert.pem', 'devices learn it with their next grant, within 10 minutes']],
  notes: 'Operators log in again once the key has changed, and enrolment tokens created before hold the former pin.',
  options: { cert: z.string().min(1).describe('PEM file of the next certificate; its private key is not read') },
  request: async (client, { cert }) => client.call(adminOperations.announcePin, { body: { pin: pinOfFile(cert) } }),
  text: pinsText,
})

const withdraw = adminCommand({
  examples: [['brim bridge tls withdraw <pin>', 'as "brim bridge tls status" shows it']],
  options: { pin: z.string().min(1).describe('pin of the announced key') },
  request: (client, { pin }) => client.call(adminOperations.withdrawPin, { params: { pin } }),
  text: pinsText,
})

/** `brim bridge tls …` */
export const menu: Menu = {
  examples: [
    ['brim bridge tls announce new-cert.pem', '1. devices accept the key of the new certificate too'],
    ['brim bridge tls status', '2. wait until no device is missing'],
    ['mv new-cert.pem cert.pem && mv new-key.pem key.pem', '3. replace the files; the bridge reads them within 5 s'],
  ],
  commands: {
    status: ['show the TLS keys, and the devices that do not accept the next one yet', () => ({ command: status })],
    'announce <cert>': [
      'tell devices the next TLS key, so that they accept it beside the present one',
      () => ({ command: announce }),
    ],
    'withdraw <pin>': ['no longer announce a TLS key', () => ({ command: withdraw })],
  },
}
