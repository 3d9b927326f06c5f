import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { renamePrivate } from '../../core/kit/base/private-file.ts'
import { type DeviceKey, identityDirOf, keyFileOf, makeKey, readDeviceKey } from './key-file.ts'

/**
 * The device's key at one bridge. Each bridge gets another key when the first one is renewed there: until then, all bridges
 * know the one that the device was given at its enrolment.
 */
export interface BridgeKey {
  readonly current: DeviceKey
  /**
   * The key that replaces it, on disk before the bridge receives it, and until the bridge has proven that it knows it. It is
   * never discarded: a request that seems lost may still reach the bridge. @throws BrimError IDENTITY_INVALID
   */
  readonly next: DeviceKey | undefined
  /** Creates `next` unless there is one. @throws BrimError TARGET_UNWRITABLE, IDENTITY_INVALID */
  makeNext(): DeviceKey
  /** The bridge knows this key, which was `next`: it is `current` from now on, even if this throws. */
  promote(key: DeviceKey): void
}

/** @param url of the bridge's HTTP. @throws BrimError IDENTITY_INVALID */
export function openBridgeKey(stateDir: string, url: string): BridgeKey {
  const file = ownKeyFileOf(stateDir, url)
  const nextFile = file.replace(/pem$/, 'next.pem')
  let current = readDeviceKey(keyFileAt(stateDir, url))
  const readNext = () => (existsSync(nextFile) ? readDeviceKey(nextFile) : undefined)
  const isCurrent = (key: DeviceKey) => key.publicKey === current.publicKey
  return {
    get current() {
      return current
    },
    get next() {
      const next = readNext()
      return next && isCurrent(next) ? undefined : next
    },
    makeNext() {
      const next = readNext()
      if (next && !isCurrent(next)) return next
      // It could not be renamed before.
      if (next) renamePrivate(nextFile, file)
      return makeKey(nextFile)
    },
    promote(key) {
      if (isCurrent(key)) return
      current = key
      renamePrivate(nextFile, file)
    },
  }
}

/** The file of the key that the bridge at this address knows, apart from a renewal. */
export function keyFileAt(stateDir: string, url: string): string {
  const own = ownKeyFileOf(stateDir, url)
  return existsSync(own) ? own : keyFileOf(stateDir)
}

export function removeBridgeKeys(stateDir: string): void {
  const folder = identityDirOf(stateDir)
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder)) if (/^device-key\..+\.pem(?:\.\d+)?$/.test(name)) rmSync(join(folder, name))
}

/** For example `device-key.bridge.example.org_7070.pem`. */
export function ownKeyFileOf(stateDir: string, url: string): string {
  const { hostname, port, protocol } = new URL(url)
  const address = `${encodeURIComponent(hostname)}_${port || (protocol === 'https:' ? 443 : 80)}`
  return join(identityDirOf(stateDir), `device-key.${address}.pem`)
}
