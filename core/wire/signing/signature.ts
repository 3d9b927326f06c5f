import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { readSecret } from '../../kit/base/private-file.ts'

/** What a signature is for: one of a bundle never admits a release of the software. */
export type SignedKind = 'bundle' | 'software'

/** 32 bytes of an Ed25519 public key, base64url: how owners of devices name a key that they trust. */
export const PublicKey = z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 43 characters as "brim bundle keygen" prints them')
export type PublicKey = z.infer<typeof PublicKey>

/** Number of a release among those of its series: a device that has had a higher one does not go back to it. */
export const ReleaseNumber = z.int().min(1)

const Signature = z.strictObject({
  publicKey: PublicKey,
  /** Signed too. Absent: signed without a number, as before there were any. */
  sequence: ReleaseNumber.optional(),
  /** 64 bytes, base64url. */
  signature: z.string().regex(/^[A-Za-z0-9_-]{86}$/),
})
export type Signature = z.infer<typeof Signature>

/** A file of signatures beside what they sign. Two keys sign while one replaces the other. */
export const SignatureFile = z.strictObject({ v: z.literal(1), signatures: z.array(Signature).min(1).max(8) })
export type SignatureFile = z.infer<typeof SignatureFile>

/** Of the signatures of a bundle, in its folder; not one of the files that the manifest lists. */
export const signatureFile = 'manifest.sig.json'
export const maxSignatureBytes = 4_096

export interface Signer {
  readonly publicKey: PublicKey
  /** @param sha256 of the manifest or archive, hex @param sequence absent: no number */
  sign(kind: SignedKind, sha256: string, sequence?: number): Signature
}

/** A new key, as PEM (PKCS 8). */
export function newSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** @throws BrimError CONFIG_INVALID if the file is missing, not an Ed25519 key, or readable by other users */
export function readSigner(path: string): Signer {
  const key = parseKey(readSecret(path), path)
  const { x: publicKey = '' } = createPublicKey(key).export({ format: 'jwk' })
  return {
    publicKey,
    sign(kind, sha256, sequence) {
      const signature = sign(null, signedBytes(kind, sha256, sequence), key).toString('base64url')
      return { publicKey, ...(sequence === undefined ? {} : { sequence }), signature }
    },
  }
}

/**
 * Requires a signature by one of the trusted keys.
 * @param sha256 of the manifest or archive, hex
 * @returns that with the highest number
 * @throws BrimError SIGNATURE_INVALID
 */
export function requireSigned(
  kind: SignedKind,
  sha256: string,
  { signatures }: SignatureFile,
  trusted: readonly PublicKey[],
): Pick<Signature, 'publicKey' | 'sequence'> {
  const known = signatures.filter(({ publicKey }) => trusted.includes(publicKey))
  const [good] = known
    .filter(({ publicKey, sequence, signature }) => hasSigned(publicKey, signedBytes(kind, sha256, sequence), signature))
    .sort((a, b) => (b.sequence ?? 0) - (a.sequence ?? 0))
  if (good) return good
  const signers = signatures.map(({ publicKey }) => publicKey).join(', ')
  throw known.length === 0
    ? new BrimError('SIGNATURE_INVALID', `the ${kind} is signed by ${signers}, which this device does not trust`, {
        hint: `if the key is yours: brim agent run --trusted-key ${signatures[0]?.publicKey}`,
      })
    : new BrimError('SIGNATURE_INVALID', `the signature of the ${kind} does not fit its sha256`, {
        hint: 'it was changed after it was signed: sign it again, or get it from its source again',
      })
}

const signedBytes = (kind: SignedKind, sha256: string, sequence: number | undefined) =>
  Buffer.from(
    sequence === undefined ? `brim-signature-v1\n${kind}\n${sha256}\n` : `brim-signature-v2\n${kind}\n${sha256}\n${sequence}\n`,
  )

function hasSigned(publicKey: PublicKey, bytes: Uint8Array, signature: string): boolean {
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' })
    return verify(null, bytes, key, Buffer.from(signature, 'base64url'))
  } catch {
    // Not a point of the curve.
    return false
  }
}

function parseKey(pem: string, path: string): KeyObject {
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw new Error(`a key of type ${key.asymmetricKeyType}`)
    return key
  } catch (cause) {
    throw new BrimError('CONFIG_INVALID', `${path} holds no Ed25519 private key`, {
      cause,
      hint: '"brim bundle keygen" makes one',
    })
  }
}
