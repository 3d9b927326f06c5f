import { createHash, type KeyObject, X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'

/** Fingerprint of a certificate's key: SHA-256 of the public key (SPKI), base64url. A renewed certificate may keep its key. */
export const pinOf = (publicKey: KeyObject): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')

/** The key of the server that a connection leads to. `getPeerX509Certificate` of Node 20 has it the first time only. */
export function serverKeyOf(socket: TLSSocket): KeyObject | undefined {
  const { raw } = socket.getPeerCertificate()
  return raw && new X509Certificate(raw).publicKey
}
