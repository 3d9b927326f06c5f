import { createHash, randomBytes } from 'node:crypto'

export interface NewSecret {
  /** Public; names the secret in lists and in the audit log. */
  readonly id: string
  readonly secret: Buffer
}

export const newSecret = (): NewSecret => ({ id: randomBytes(4).toString('hex'), secret: randomBytes(32) })

/** Secrets are 256 random bits, which cannot be guessed: a plain hash protects them. */
export const hashOf = (secret: Buffer): Buffer => createHash('sha256').update(secret).digest()
