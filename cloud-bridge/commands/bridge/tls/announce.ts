import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { pinOf } from '../../../../core/kit/base/tls-pin.ts'
import { defineCommand } from '../../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../../administration.ts'
import { pinsText } from './status.ts'

export const command = defineCommand({
  examples: [['brim bridge tls announce new-cert.pem', 'devices learn it with their next grant, within 10 minutes']],
  notes: 'Operators log in again once the key has changed, and enrolment tokens created before hold the former pin.',
  options: {
    cert: z.string().min(1).describe('PEM file of the next certificate; its private key is not read'),
    ...administrationOptions,
  },
  async run({ cert, json, ...options }, io) {
    const pin = readPin(cert)
    const status = await administer(options, io, async (admin) => {
      await admin.announcePin(pin)
      return admin.tls()
    })
    io.out(json ? JSON.stringify(status) : pinsText(status))
  },
})

/** @throws BrimError USAGE */
function readPin(path: string): string {
  try {
    return pinOf(new X509Certificate(readFileSync(path)).publicKey)
  } catch (cause) {
    throw new BrimError('USAGE', `${path} is not a certificate that can be read`, { cause, hint: 'give a PEM file' })
  }
}
