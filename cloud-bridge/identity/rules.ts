import type { ErrorCode } from '../../core/kit/base/errors.ts'
import { hasExpired } from '../../core/policy/identity/key-validity.ts'
import type { DeviceIdentity, TokenRecord } from '../../core/wire/protocol/http/admin.ts'
import { datesOf } from './key-dates.ts'

export interface Refused {
  readonly kind: 'refused'
  readonly code: Extract<ErrorCode, 'ENROLL_REFUSED' | 'NOT_AUTHORIZED' | 'DEVICE_CLONED'>
  readonly message: string
  readonly hint: string
}

const refused = (code: Refused['code'], message: string, hint: string): Refused => ({ kind: 'refused', code, message, hint })

export interface EnrolmentFacts {
  readonly device: string
  readonly publicKey: string
  /** Token that the secret belongs to. */
  readonly token: TokenRecord | undefined
  /** Device with this name, and device with this key. */
  readonly named: DeviceIdentity | undefined
  readonly keyed: DeviceIdentity | undefined
  /** Device whose key it was, before that device was revoked and enrolled with another key. */
  readonly formerOf: string | undefined
  readonly hardware: string | undefined
}

/**
 * Whether a device may enrol: with a valid token, under a name that no other key holds. A repeat with the same key and token
 * changes nothing and costs no use, because the first response may have been lost.
 */
export function judgeEnrolment(
  { device, publicKey, token, named, keyed, formerOf, hardware }: EnrolmentFacts,
  nowMs: number,
): { kind: 'enrol'; token: TokenRecord } | { kind: 'repeat'; status: 'pending' | 'approved' } | Refused {
  const another = 'at the bridge, "brim bridge token create" creates another'
  if (!token) return refused('ENROLL_REFUSED', 'the bridge does not know this token', another)
  if (token.revokedAt !== null) return refused('ENROLL_REFUSED', `token ${token.id} was revoked`, another)
  if (formerOf !== undefined)
    return refused(
      'ENROLL_REFUSED',
      `this key was that of device "${formerOf}", and was replaced or removed`,
      'on this device, run "brim agent reset-identity", then enrol it again',
    )
  if (keyed && keyed.device !== device)
    return refused(
      'DEVICE_CLONED',
      `this key belongs to device "${keyed.device}": the image was cloned, or the device renamed`,
      'on this device, run "brim agent reset-identity", then enrol it again',
    )
  if (keyed && isOnOtherMachine(keyed, hardware)) return cloned(keyed.device, hardware)
  if (named && named.status !== 'revoked') {
    if (named.publicKey === publicKey && named.tokenId === token.id) return { kind: 'repeat', status: named.status }
    if (named.publicKey !== publicKey)
      return refused(
        'ENROLL_REFUSED',
        `device "${device}" is enrolled with another key`,
        `choose another --id; or, if its key is lost, "brim device revoke ${device}" at the bridge, then enrol again`,
      )
  }
  if (named?.status === 'revoked' && named.publicKey === publicKey)
    return refused(
      'ENROLL_REFUSED',
      `the key of device "${device}" was revoked`,
      `at the bridge, "brim device approve ${device}" restores it; on the device, "brim agent reset-identity" creates another key`,
    )
  if (nowMs >= Date.parse(token.expiresAt)) return refused('ENROLL_REFUSED', `token ${token.id} has expired`, another)
  if (token.usesLeft < 1) return refused('ENROLL_REFUSED', `token ${token.id} is used up`, another)
  return { kind: 'enrol', token }
}

/** Whether a device that has proven its key may connect. `bind`: its hardware is to be stored. */
export function judgeGrant(
  device: string,
  known: DeviceIdentity | undefined,
  hardware: string | undefined,
  nowMs: number,
): { kind: 'granted'; bind: boolean } | Refused {
  const approve = `at the bridge: brim device approve ${device}`
  if (!known)
    return refused('NOT_AUTHORIZED', `device "${device}" is not enrolled at this bridge`, 'brim agent enroll --token-file …')
  if (known.status === 'revoked') return refused('NOT_AUTHORIZED', `device "${device}" was revoked`, approve)
  if (known.status === 'pending') return refused('NOT_AUTHORIZED', `device "${device}" waits for approval`, approve)
  // Before the expiry: an approval would admit the other machine.
  if (isOnOtherMachine(known, hardware)) return cloned(device, hardware)
  if (hasExpired(datesOf(known), nowMs))
    return refused(
      'NOT_AUTHORIZED',
      `the key of device "${device}" expired at ${known.keyExpiresAt}, before its agent renewed it`,
      `${approve}; the agent then connects and renews the key by itself`,
    )
  return { kind: 'granted', bind: hardware !== undefined && known.hardware === null }
}

export interface KeyRenewal {
  readonly known: DeviceIdentity
  /** Device with the new key, now or formerly. */
  readonly holder: string | undefined
  /** Undefined: keys do not expire. */
  readonly renewInMs: number | undefined
}

/** Whether a device that may connect, and has proven both keys, may replace the old one. */
export function judgeKeyRenewal({ known, holder, renewInMs }: KeyRenewal): { kind: 'renew' } | Refused {
  const { device } = known
  // Each renewal is stored for good, so a device must not renew as often as it likes.
  if (renewInMs === undefined || renewInMs > 0)
    return refused('NOT_AUTHORIZED', `the key of device "${device}" is not due for renewal`, 'the agent renews it by itself')
  if (holder !== undefined)
    return refused('NOT_AUTHORIZED', `the new key of device "${device}" is or was that of "${holder}"`, 'create a new key')
  return { kind: 'renew' }
}

/** A device that is bound must name its machine: otherwise a copy would pass by leaving it out, or naming another serial. */
const isOnOtherMachine = (known: DeviceIdentity, hardware: string | undefined): boolean =>
  known.hardware !== null && known.hardware !== hardware

/** Names no serial number: a thief of the key could present it. */
function cloned(device: string, hardware: string | undefined): Refused {
  const approve = `"brim device approve ${device}" at the bridge`
  return hardware === undefined
    ? refused(
        'DEVICE_CLONED',
        `the key of device "${device}" is bound to one machine, but the request names no machine`,
        `run the agent as the same user as before, who can read the serial number; or ${approve}`,
      )
    : refused(
        'DEVICE_CLONED',
        `the key of device "${device}" is used on two machines: this one is not the first`,
        `on the copy, run "brim agent reset-identity" and enrol it under its own name; if ${device} has moved to other hardware, or its agent runs as another user, ${approve}`,
      )
}
