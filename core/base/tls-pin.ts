import { createHash, type KeyObject } from 'node:crypto'

/** What tells one certificate's key from another: SHA-256 of the public key (SPKI), base64url. A renewal may keep it. */
export const pinOf = (publicKey: KeyObject): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')
