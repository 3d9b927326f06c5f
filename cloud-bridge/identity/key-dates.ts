import { isoOf } from '../../core/kit/base/clock.ts'
import type { KeyDates } from '../../core/policy/identity/key-validity.ts'
import type { DeviceIdentity } from '../../core/wire/protocol/http/admin.ts'

/** The dates of a device's key as they are stored. */
export type StoredDates = Pick<DeviceIdentity, 'keySince' | 'keyExpiresAt'>

export const datesOf = ({ keySince, keyExpiresAt }: StoredDates): KeyDates => ({
  sinceMs: keySince === null ? null : Date.parse(keySince),
  expiresMs: keyExpiresAt === null ? null : Date.parse(keyExpiresAt),
})

export const storedDates = ({ sinceMs, expiresMs }: KeyDates): StoredDates => ({
  keySince: sinceMs === null ? null : isoOf(sinceMs),
  keyExpiresAt: expiresMs === null ? null : isoOf(expiresMs),
})

/** A number in [0, 1) that belongs to a key: its first 32 bits, which are random. */
export const uniformOf = (publicKey: string): number => Buffer.from(publicKey, 'base64url').readUInt32BE() / 2 ** 32
