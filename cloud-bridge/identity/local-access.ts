import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { writePrivate } from '../../core/base/private-file.ts'
import { openIdentityStore } from './store.ts'

const Address = z.object({
  v: z.literal(1),
  url: z.url({ protocol: /^https?$/ }),
  /** SHA-256 of the public key of the bridge's TLS certificate. */
  pin: z.string().optional(),
})
/** Where a bridge listens. */
export type Address = Omit<z.infer<typeof Address>, 'v'>

const addressFileOf = (stateDir: string) => join(stateDir, 'address.json')
/** Of the key that `localKey` creates. */
export const localKeyName = 'local'
const keyFileOf = (stateDir: string) => join(stateDir, 'local-key')

/** Tells the commands on this machine where the bridge listens, until `forgetAddress`. @throws BrimError TARGET_UNWRITABLE */
export const writeAddress = (stateDir: string, address: Address): void =>
  writePrivate(addressFileOf(stateDir), `${JSON.stringify({ v: 1, ...address })}\n`)

export const forgetAddress = (stateDir: string): void => rmSync(addressFileOf(stateDir), { force: true })

/** Where the bridge of this state folder listens; undefined: it does not run. @throws BrimError STORE_FAILED */
export function readAddress(stateDir: string): Address | undefined {
  const path = addressFileOf(stateDir)
  if (!existsSync(path)) return undefined
  try {
    return Address.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (cause) {
    throw new BrimError('STORE_FAILED', `${path} cannot be read`, { cause, hint: 'restart the bridge, which writes it' })
  }
}

/**
 * A key for a user who may write the state folder of a bridge, and so is an admin there. It is created at the first use.
 * @param user for the audit log
 * @throws BrimError STORE_FAILED, TARGET_UNWRITABLE
 */
export function localKey(stateDir: string, user: string): string {
  const path = keyFileOf(stateDir)
  const store = openIdentityStore(stateDir)
  try {
    const stored = existsSync(path) ? readFileSync(path, 'utf8').trim() : ''
    // It may have been revoked, or the folder restored from a backup.
    if (store.keyOf(stored)) return stored
    const { key } = store.createKey(`operator:${user}`, localKeyName, 'admin')
    writePrivate(path, `${key}\n`)
    return key
  } finally {
    store.close()
  }
}
