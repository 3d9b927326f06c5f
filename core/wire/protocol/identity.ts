import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { off } from '../../kit/base/setting-kinds.ts'
import { Id } from './id.ts'
import { v } from './version.ts'

/**
 * How a device proves its identity, as JSON over HTTP (http/identity.ts): it asks for a nonce, signs it with its Ed25519 key,
 * and receives an access token for the control and the data plane. The token belongs to a grant: the device's permission to
 * connect, which each further token renews. Durations only, no timestamps: the clock of a device may show 1970.
 */

/** The last characters that leave no unused bit set, by the bytes that remain of a whole number of triples. */
const lastOf = ['[A-Za-z0-9_-]', '[AQgw]', '[AEIMQUYcgkosw048]'] as const
/** `bytes` bytes as base64url without padding. Bytes have one spelling: a revoked key has no other name. */
const binary = (bytes: number) =>
  z.string().regex(new RegExp(`^[A-Za-z0-9_-]{${Math.ceil((bytes * 4) / 3) - 1}}${lastOf[bytes % 3]}$`))
/** Distinguishes a machine from a copy of its disk: source and serial number, such as `device-tree 1421120041203`. */
const hardware = z
  .string()
  .regex(/^[a-z-]+ [\x21-\x7e]{1,80}$/)
  .optional()

export const NonceReply = z.object({ v, nonce: binary(32), bridge: Id, fleet: Id, validForS: z.number().positive() })
export type NonceReply = z.infer<typeof NonceReply>

const proof = { v, device: Id, nonce: binary(32), signature: binary(64), hardware }

export const EnrolRequest = z.object({ ...proof, token: z.string().max(200), publicKey: binary(32) })
export type EnrolRequest = z.infer<typeof EnrolRequest>

export const EnrolReply = z.object({
  v,
  group: Id,
  status: z.enum(['pending', 'approved']).describe('`pending`: an operator must approve the device before it can connect.'),
  mqttPort: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('Port of the control plane, on the host of this request; absent: `mqttPath`.'),
  mqttPath: z
    .string()
    .regex(/^\/[\w/-]{1,100}$/)
    .optional()
    .describe('Path of the control plane by WebSocket, at the address of this request, where it has no port of its own.'),
  mqttTls: off.describe('Whether the control plane speaks TLS.'),
  mqttUrl: z
    .url({ protocol: /^mqtts?$/ })
    .meta({ examples: ['mqtts://10.0.0.6:8883'] })
    .optional()
    .describe('Address of an external broker, with its own certificate; replaces `mqttPort` and `mqttTls`.'),
  mqttUrls: z
    .array(z.url({ protocol: /^mqtts?$/ }).meta({ examples: ['mqtts://10.0.0.6:8883'] }))
    .max(16)
    .optional()
    .describe('Addresses of all nodes of an external broker, if it has several; `mqttUrl` is the first.'),
})
export type EnrolReply = z.infer<typeof EnrolReply>

/** SHA-256 of public keys that a bridge shows by TLS. */
const tlsPins = z.array(binary(32)).max(4)

export const GrantRequest = z.object({
  ...proof,
  renewsKey: off.describe('Whether the agent renews its key; one that does not has a key that never expires.'),
  pins: tlsPins
    .optional()
    .describe('TLS keys of the bridge that the device accepts; empty: any that its system trusts. Absent: an older agent.'),
})
export type GrantRequest = z.infer<typeof GrantRequest>

/** How a client logs in at the broker of its bridge. */
export interface MqttLogin {
  readonly password: string
  /** Undefined: `device-<id>` or `bridge-<id>`. */
  readonly clientId?: string | undefined
  /** QoS of subscriptions; undefined: as the topics say. */
  readonly subscribeQos?: 0 | undefined
}

export const GrantReply = z.object({
  v,
  token: z.string().min(1).max(1_000).describe('Bearer token.'),
  validForS: z.number().positive(),
  mqttPassword: z
    .string()
    .min(1)
    .max(10_000)
    .optional()
    .describe('Password for the control plane, the same throughout the grant; absent: the token is the password.'),
  mqttClientId: z
    .string()
    .regex(/^[\w-]{1,128}$/)
    .optional()
    .describe('Client id at the control plane; absent: `device-` and the id of the device.'),
  mqttQos: z
    .literal(0)
    .optional()
    .describe('QoS at which the device subscribes to the control plane; absent: as its topics say.'),
  pins: tlsPins
    .optional()
    .describe('The TLS key that the bridge shows, then those that it will show; absent: it has no TLS, or is an older bridge.'),
  renewKeyInS: z.number().min(0).optional().describe('When the agent is to renew its key; absent: the key does not expire.'),
})
export type GrantReply = z.infer<typeof GrantReply>

/** Both keys sign the same bytes, which name the new one. */
export const RenewKeyRequest = z.object({
  ...proof,
  publicKey: binary(32).describe('The new key.'),
  newSignature: binary(64).describe('Of the new key.'),
})
export type RenewKeyRequest = z.infer<typeof RenewKeyRequest>

export const RenewKeyReply = GrantReply.pick({ v: true, renewKeyInS: true })
export type RenewKeyReply = z.infer<typeof RenewKeyReply>

export const SubjectReply = z.object({
  v,
  subject: z
    .string()
    .nullable()
    .describe('MQTT client id (`device-…`, `bridge-…`), or `<role>-<name>` of an API key; null: the token proves nothing now.'),
})

export interface Signed {
  /** A signature for access ('session') cannot be used to enrol, or to replace the key. */
  readonly purpose: 'enroll' | 'session' | 'renew-key'
  readonly nonce: string
  readonly bridge: string
  readonly fleet: string
  readonly device: string
  readonly hardware?: string | undefined
  /** With the purpose `renew-key`. */
  readonly newKey?: string | undefined
}

/** The bytes that a device signs. A JSON list of strings has only one reading. */
export function signedBytes({ purpose, nonce, bridge, fleet, device, hardware = '', newKey }: Signed): Uint8Array {
  const fields = ['brim-identity-1', purpose, nonce, bridge, fleet, device, hardware, ...(newKey === undefined ? [] : [newKey])]
  return new TextEncoder().encode(JSON.stringify(fields))
}

const Invitation = z.object({
  /** The bridge's HTTP address, as devices reach it. */
  url: z.url({ protocol: /^https?$/ }),
  /** Names the token in lists and in the audit log; not secret. */
  id: z.string().regex(/^[0-9a-f]{8}$/),
  secret: binary(32),
  /** SHA-256 of the public key that the bridge shows by TLS; absent: the device's system must trust the certificate. */
  pin: binary(32).optional(),
})
export type Invitation = z.infer<typeof Invitation>

const prefix = 'brim-enroll-1.'

/** A one-time token as an operator hands it to a device: the bridge's address and the secret in one word. */
export const invitationText = (invitation: Invitation): string =>
  prefix + Buffer.from(JSON.stringify(invitation)).toString('base64url')

/** @throws BrimError ENROLL_REFUSED; its message never repeats the text */
export function readInvitation(text: string): Invitation {
  try {
    if (!text.startsWith(prefix)) throw new Error(`it does not begin with ${prefix}`)
    return Invitation.parse(JSON.parse(Buffer.from(text.slice(prefix.length), 'base64url').toString()))
  } catch {
    throw new BrimError('ENROLL_REFUSED', 'the text is not an enrolment token', {
      hint: 'at the bridge, "brim bridge token create" prints one: pass on the whole line',
    })
  }
}
