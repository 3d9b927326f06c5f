import { createPublicKey, verify } from 'node:crypto'
import { bytesOf } from './base64url.ts'

/** The prime of Curve25519. */
const p = 2n ** 255n - 19n
/**
 * The y coordinates of the eight points whose order divides the cofactor. One signature of such a key fits many messages or
 * all, so it proves nothing.
 */
const smallOrder: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  p - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
])

export interface PublicDeviceKey {
  /** @param signature base64url of 64 bytes */
  hasSigned(bytes: Uint8Array, signature: string): boolean
}

/**
 * @param text base64url of 32 bytes
 * @returns undefined for another spelling of the bytes, an encoding that RFC 8032 does not allow, and a point of small order
 */
export function openDeviceKey(text: string): PublicDeviceKey | undefined {
  const bytes = bytesOf(text, 32)
  const y = bytes && yOf(bytes)
  if (y === undefined || y >= p || smallOrder.has(y)) return undefined
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: text }, format: 'jwk' })
  return {
    hasSigned(message, signature) {
      const signed = bytesOf(signature, 64)
      // OpenSSL refuses an S that is not reduced.
      return signed !== undefined && verify(null, message, key, signed)
    },
  }
}

/** Little-endian; the highest bit is the sign of x. */
function yOf(bytes: Buffer): bigint {
  const bigEndian = Buffer.from(bytes).reverse()
  bigEndian[0]! &= 0x7f
  return BigInt(`0x${bigEndian.toString('hex')}`)
}
