import { createHash, type KeyObject } from 'node:crypto'

/** Fingerprint of a certificate's key: SHA-256 of the public key (SPKI), base64url. A renewed certificate may keep its key. */
export const pinOf = (publicKey: KeyObject): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')
