import { closeSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { openPlainFile, writePrivate } from '../../core/kit/base/private-file.ts'
import { isFolderLocked } from '../../core/kit/store/lock-folder.ts'
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
/** Name of the key that the commands on the bridge's own machine make for themselves. */
export const localKeyName = 'local'
const keyFileOf = (stateDir: string) => join(stateDir, 'local-key')

/** Tells the commands on this machine where the bridge listens, until `forgetAddress`. @throws BrimError TARGET_UNWRITABLE */
export const writeAddress = (stateDir: string, address: Address): void =>
  writePrivate(addressFileOf(stateDir), `${JSON.stringify({ v: 1, ...address })}\n`)

export const forgetAddress = (stateDir: string): void => rmSync(addressFileOf(stateDir), { force: true })

/**
 * Where the bridge of this state folder listens; undefined: it does not run. A bridge that was killed leaves its address, at which
 * another program may listen since: only the lock tells that it runs.
 * @throws BrimError STORE_FAILED
 */
export function readAddress(stateDir: string): Address | undefined {
  const path = addressFileOf(stateDir)
  if (!isFolderLocked(stateDir)) return undefined
  try {
    const text = readPlainFile(path)
    return text === undefined ? undefined : Address.parse(JSON.parse(text))
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
  using store = openIdentityStore(stateDir)
  const stored = readPlainFile(path)?.trim() ?? ''
  // It may have been revoked, or the folder restored from a backup.
  if (store.keyOf(stored)) return stored
  const { key } = store.createKey(`operator:${user}`, localKeyName, 'admin')
  writePrivate(path, `${key}\n`)
  return key
}

/** @returns undefined where there is no file. Throws what the file system throws */
function readPlainFile(path: string): string | undefined {
  let file: number
  try {
    file = openPlainFile(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
  try {
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}
