import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { orThrow } from '../../core/kit/base/errors.ts'
import { pinOf } from '../../core/kit/base/tls-pin.ts'

/** The pin of a certificate's key. @throws BrimError USAGE */
export function pinOfFile(path: string): string {
  return orThrow(
    () => pinOf(new X509Certificate(readFileSync(path)).publicKey),
    'USAGE',
    `certificate ${path} cannot be read`,
    'give a PEM file',
  )
}
