import { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import { idPattern } from './topics.ts'
import { v } from './version.ts'

/**
 * How a device proves who it is, as JSON over HTTP POST: it asks for a nonce, signs it with its Ed25519 key, and is given a
 * token for the control and the data plane. Durations, never times of day: a device's clock may stand in 1970.
 */
export const noncePath = '/v1/identity/nonce'
export const enrolPath = '/v1/identity/enroll'
export const sessionPath = '/v1/identity/session'

const id = z.string().regex(idPattern)
/** `bytes` bytes as base64url without padding. */
const binary = (bytes: number) =>
  z
    .string()
    .regex(/^[A-Za-z0-9_-]+$/)
    .length(Math.ceil((bytes * 4) / 3))
/** What tells one machine from a copy of its disk: the source and what it says, as `device-tree 1421120041203`. */
const hardware = z
  .string()
  .regex(/^[a-z-]+ [\x21-\x7e]{1,80}$/)
  .optional()

export const NonceReply = z.object({ v, nonce: binary(32), bridge: id, fleet: id, validForS: z.number().positive() })
export type NonceReply = z.infer<typeof NonceReply>

const proof = { v, device: id, nonce: binary(32), signature: binary(64), hardware }

export const EnrolRequest = z.object({ ...proof, token: z.string().max(200), publicKey: binary(32) })
export type EnrolRequest = z.infer<typeof EnrolRequest>

export const EnrolReply = z.object({
  v,
  group: id,
  /** Pending: an operator has to approve the device before it may connect. */
  status: z.enum(['pending', 'approved']),
  /** The control plane's port, on the host that the device has just talked to. */
  mqttPort: z.int().min(1).max(65_535),
  /** Whether the control plane speaks TLS. */
  mqttTls: z.boolean().default(false),
  /** The control plane where it is a broker of its own, with a certificate of its own: what is above does not count then. */
  mqttUrl: z
    .url({ protocol: /^mqtts?$/ })
    .meta({ examples: ['mqtts://10.0.0.6:8883'] })
    .optional(),
})
export type EnrolReply = z.infer<typeof EnrolReply>

export const SessionRequest = z.object(proof)
export type SessionRequest = z.infer<typeof SessionRequest>

export const SessionReply = z.object({
  v,
  token: z.string().min(1).max(1_000),
  validForS: z.number().positive(),
  /** For the control plane, the same for as long as the session goes on; absent: the token is. */
  mqttPassword: z.string().min(1).max(200).optional(),
})
export type SessionReply = z.infer<typeof SessionReply>

export const Refusal = z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }) })

export interface Signed {
  /** What the signature is for: one for a session enrols nobody. */
  readonly purpose: 'enroll' | 'session'
  readonly nonce: string
  readonly bridge: string
  readonly fleet: string
  readonly device: string
  readonly hardware?: string | undefined
}

/** The bytes that a device signs; a list of strings in JSON can be read in one way only. */
export function signedBytes({ purpose, nonce, bridge, fleet, device, hardware = '' }: Signed): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(['brim-identity-1', purpose, nonce, bridge, fleet, device, hardware]))
}

const Invitation = z.object({
  /** The bridge's HTTP address as devices see it. */
  url: z.url({ protocol: /^https?$/ }),
  /** Names the token in lists and in the audit log; no secret. */
  id: z.string().regex(/^[0-9a-f]{8}$/),
  secret: binary(32),
  /** SHA-256 of the public key that the bridge will show by TLS; absent: a certificate that the device's system trusts. */
  pin: binary(32).optional(),
})
export type Invitation = z.infer<typeof Invitation>

const prefix = 'brim-enroll-1.'

/** A one-time token as it is handed to a device: one word that tells where to go and why to be let in. */
export const invitationText = (invitation: Invitation): string =>
  prefix + Buffer.from(JSON.stringify(invitation)).toString('base64url')

/** @throws BrimError ENROLL_REFUSED where that is no enrolment token; the text itself is never repeated */
export function readInvitation(text: string): Invitation {
  try {
    if (!text.startsWith(prefix)) throw new Error(`it does not begin with ${prefix}`)
    return Invitation.parse(JSON.parse(Buffer.from(text.slice(prefix.length), 'base64url').toString()))
  } catch {
    throw new BrimError('ENROLL_REFUSED', 'that is no enrolment token', {
      hint: 'at the bridge, "brim bridge token create" prints one: pass on the whole line',
    })
  }
}
