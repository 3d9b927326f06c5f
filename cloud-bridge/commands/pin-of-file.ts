import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BrimError } from '../../core/kit/base/errors.ts'
import { pinOf } from '../../core/kit/base/tls-pin.ts'

/** The pin of a certificate's key. @throws BrimError USAGE */
export function pinOfFile(path: string): string {
  try {
    return pinOf(new X509Certificate(readFileSync(path)).publicKey)
  } catch (cause) {
    throw new BrimError('USAGE', `certificate ${path} cannot be read`, { cause, hint: 'give a PEM file' })
  }
}
