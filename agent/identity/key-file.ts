import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { readPrivate, writePrivate } from '../../core/kit/base/private-file.ts'

/** A device's Ed25519 key; the private key never leaves its file. */
export interface DeviceKey {
  /** 32 bytes, base64url. */
  readonly publicKey: string
  /** @returns 64 bytes, base64url */
  sign(bytes: Uint8Array): string
}

export const identityDirOf = (stateDir: string) => join(stateDir, 'identity')
/** The key that the device enrols with. */
export const keyFileOf = (stateDir: string) => join(identityDirOf(stateDir), 'device-key.pem')

/** @throws BrimError IDENTITY_INVALID if the file is missing, not an Ed25519 key, or readable by other users */
export function readDeviceKey(path: string): DeviceKey {
  const reset = 'run "brim agent reset-identity" to create a new key, then enrol again'
  const leaked = 'if another user may have read it, run "brim agent reset-identity"'
  const pem = readPrivate(path, { code: 'IDENTITY_INVALID', what: 'the key file', hint: reset, leaked })
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw new Error(`key of type ${key.asymmetricKeyType}`)
    return deviceKey(key)
  } catch (cause) {
    throw new BrimError('IDENTITY_INVALID', `the file ${path} does not contain an Ed25519 key`, { cause, hint: reset })
  }
}

/** Creates a key and replaces any existing one. @throws BrimError TARGET_UNWRITABLE */
export function makeKey(path: string): DeviceKey {
  const { privateKey } = generateKeyPairSync('ed25519')
  writePrivate(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  return deviceKey(privateKey)
}

function deviceKey(key: KeyObject): DeviceKey {
  const { x } = createPublicKey(key).export({ format: 'jwk' })
  if (x === undefined) throw new Error('Ed25519 key without a public key')
  return { publicKey: x, sign: (bytes) => sign(null, bytes, key).toString('base64url') }
}
