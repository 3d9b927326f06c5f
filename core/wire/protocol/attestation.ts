import { createHash, type KeyObject } from 'node:crypto'
import { z } from 'zod'

const base64 = z
  .string()
  .max(8_192)
  .regex(/^[A-Za-z0-9+/]+={0,2}$/)

/** What a bridge in a confidential virtual machine shows of it. Reports have 1 to 5 KB, certificates 1 to 2 KB. */
export const Evidence = z.object({
  kind: z.string().max(32).describe('`sev-snp`: AMD SEV-SNP. Others are for later releases.'),
  report: base64.describe("The processor's attestation report, base64."),
  certificates: z.array(base64).max(8).describe("From the report's key to the vendor's root, in any order: DER, base64."),
})
export type Evidence = z.infer<typeof Evidence>

/** A device's challenge: 32 random bytes. */
export const Nonce = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ title: '64 hex digits' })

/**
 * What the report of a connection must contain, so that it is no report of before, of another machine, or of a key in between.
 * @param nonce as in `hello`
 * @param publicKey of the TLS certificate that the bridge shows on this connection
 * @returns 64 bytes
 */
export const attestedData = (nonce: string, publicKey: KeyObject): Buffer =>
  createHash('sha512')
    .update('brim bridge 1\n')
    .update(nonce, 'hex')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest()
