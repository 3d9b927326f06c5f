import type { ErrorCode } from '../../core/base/errors.ts'

/** A one-time token as the bridge keeps it: never the secret itself. */
export interface TokenRecord {
  readonly id: string
  readonly group: string
  readonly usesLeft: number
  /** Whether those that enrol with it may connect without an operator's approval. */
  readonly approve: boolean
  /** UTC, ISO 8601, by the bridge's clock. */
  readonly createdAt: string
  readonly expiresAt: string
  readonly revokedAt: string | null
}

export interface DeviceIdentity {
  readonly device: string
  readonly group: string
  readonly status: 'pending' | 'approved' | 'revoked'
  /** Ed25519, base64url. */
  readonly publicKey: string
  /** Token that it enrolled with. */
  readonly tokenId: string
  readonly enrolledAt: string
  /** The machine that has used the key first since its approval; null: none has told. */
  readonly hardware: string | null
  /** Another machine that has used the same key since: a cloned image. */
  readonly clone: string | null
}

export interface Refused {
  readonly kind: 'refused'
  readonly code: Extract<ErrorCode, 'ENROLL_REFUSED' | 'NOT_AUTHORIZED' | 'DEVICE_CLONED'>
  readonly message: string
  readonly hint: string
}

const refused = (code: Refused['code'], message: string, hint: string): Refused => ({ kind: 'refused', code, message, hint })

export interface Enrolment {
  readonly device: string
  readonly publicKey: string
  /** That the secret belongs to. */
  readonly token: TokenRecord | undefined
  /** Who is enrolled under this name, and under this key. */
  readonly named: DeviceIdentity | undefined
  readonly keyed: DeviceIdentity | undefined
  readonly hardware: string | undefined
}

/**
 * Whether a device may enrol: with a living token, under a name that no other key has. Asking again with the same key and
 * token changes nothing and costs no use: the first answer may have been lost.
 */
export function judgeEnrolment(
  { device, publicKey, token, named, keyed, hardware }: Enrolment,
  nowMs: number,
): { kind: 'enrol' } | { kind: 'repeat'; status: 'pending' | 'approved' } | Refused {
  const another = 'at the bridge, "brim bridge token create" makes another'
  if (!token) return refused('ENROLL_REFUSED', 'the bridge knows no such token', another)
  if (token.revokedAt !== null) return refused('ENROLL_REFUSED', `token ${token.id} was revoked`, another)
  if (keyed && keyed.device !== device)
    return refused(
      'DEVICE_CLONED',
      `this key is that of device "${keyed.device}": the image was cloned, or the device renamed`,
      'on this device, "brim agent reset-identity" makes it a device of its own; then enrol again',
    )
  if (keyed && isKnownElsewhere(keyed, hardware)) return cloned(keyed, hardware)
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
      `"brim device approve ${device}" at the bridge takes that back; "brim agent reset-identity" makes another key`,
    )
  if (nowMs >= Date.parse(token.expiresAt)) return refused('ENROLL_REFUSED', `token ${token.id} has expired`, another)
  if (token.usesLeft < 1) return refused('ENROLL_REFUSED', `token ${token.id} is used up`, another)
  return { kind: 'enrol' }
}

/** Whether a device that has proven its key may have a session; `bind`: its machine is to be remembered. */
export function judgeSession(
  device: string,
  known: DeviceIdentity | undefined,
  hardware: string | undefined,
): { kind: 'granted'; bind: boolean } | Refused {
  if (!known)
    return refused('NOT_AUTHORIZED', `device "${device}" is not enrolled at this bridge`, 'brim agent enroll --token-file …')
  if (known.status === 'revoked')
    return refused('NOT_AUTHORIZED', `device "${device}" was revoked`, `at the bridge: brim device approve ${device}`)
  if (known.status === 'pending')
    return refused('NOT_AUTHORIZED', `device "${device}" waits for approval`, `at the bridge: brim device approve ${device}`)
  if (isKnownElsewhere(known, hardware)) return cloned(known, hardware)
  return { kind: 'granted', bind: hardware !== undefined && known.hardware === null }
}

const isKnownElsewhere = (known: DeviceIdentity, hardware: string | undefined): boolean =>
  hardware !== undefined && known.hardware !== null && isOtherMachine(known.hardware, hardware)

const cloned = ({ device, hardware: first }: DeviceIdentity, hardware: string | undefined): Refused =>
  refused(
    'DEVICE_CLONED',
    `the key of device "${device}" is used on two machines: ${first}, and now ${hardware}`,
    `on the copy "brim agent reset-identity", then enrol it under its own name; if ${device} has moved to other hardware, "brim device approve ${device}" at the bridge`,
  )

/** Two sources cannot be compared: the serial number of a board may be readable at one start and not at the next. */
export function isOtherMachine(one: string, other: string): boolean {
  const [source] = one.split(' ', 1)
  return other.startsWith(`${source} `) && one !== other
}
