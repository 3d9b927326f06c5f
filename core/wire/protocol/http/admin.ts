import { z } from 'zod'
import { Id } from '../id.ts'
import { Labels, LabelsToSet } from './labels.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

const at = z.iso.datetime()
const quotaLimit = z.int().min(1).nullable()

/**
 * `client`: asks the bridge's models, and sees nothing else. Each of the others includes the rights of those before it; `operator`
 * also those of `client`.
 */
export const keyRoles = ['client', 'viewer', 'operator', 'admin'] as const
export type KeyRole = (typeof keyRoles)[number]

export const TokenRequest = z.object({
  group: Id,
  uses: z.int().min(1).describe('Devices that can enrol with the token.'),
  expiresS: z
    .int()
    .min(1)
    .max(366 * 86_400),
  approve: z.boolean().describe('Devices are approved as they enrol.'),
  labels: LabelsToSet.default({}).describe('Given to devices as they enrol.'),
})
export type TokenRequest = z.infer<typeof TokenRequest>

/** An enrolment token, without its secret. */
export const TokenRecord = z.object({
  id: z.string(),
  group: z.string(),
  usesLeft: z.int().min(0),
  approve: z.boolean(),
  labels: Labels.default({}),
  createdAt: at,
  expiresAt: at,
  revokedAt: at.nullable(),
})
export type TokenRecord = z.infer<typeof TokenRecord>

export const KeyRequest = z.object({
  name: Id,
  role: z.enum(keyRoles),
  requestsPerMinute: quotaLimit.default(null),
  jobsPerDay: quotaLimit.default(null),
  expiresS: z
    .int()
    .min(1)
    .max(3_660 * 86_400)
    .nullable()
    .default(null)
    .describe('Null: the key does not expire.'),
})
export type KeyRequest = z.infer<typeof KeyRequest>

/** An API key, without its secret. */
export const KeyRecord = z.object({
  id: z.string(),
  name: z.string(),
  role: openEnum(keyRoles),
  createdAt: at,
  expiresAt: at.nullable().default(null),
  revokedAt: at.nullable(),
  requestsPerMinute: quotaLimit,
  jobsPerDay: quotaLimit,
})
export type KeyRecord = z.infer<typeof KeyRecord>

export const DeviceIdentity = z.object({
  device: z.string(),
  group: z.string(),
  status: openEnum(['pending', 'approved', 'revoked']),
  publicKey: z.string().describe('Ed25519, base64url.'),
  tokenId: z.string().describe('Token that the device enrolled with.'),
  enrolledAt: at,
  keySince: at.nullable().default(null).describe('When the agent began to use its key; null: it does not renew keys.'),
  keyExpiresAt: at.nullable().default(null).describe('Null: the key does not expire.'),
  hardware: z.string().nullable().describe('First machine that used the key since the approval.'),
  clone: z.string().nullable().describe('Another machine that used the same key: a cloned image.'),
})
export type DeviceIdentity = z.infer<typeof DeviceIdentity>

export const AuditLine = z.object({
  at,
  actor: z.string().describe('`operator:<user>`, `key:<name>/<id>`, `device:<id>`, or `anyone` where no proof is required.'),
  from: z.string().nullable().describe("Address of the request; null: on the bridge's own machine."),
  action: z.string().describe('`token.create`, `job.submit`, …; method and path of a request without a name.'),
  subject: z.string(),
  outcome: openEnum(['ok', 'refused', 'failed']),
  count: z.int().min(1).default(1).describe('Refusals of one caller and action within a minute, of which this is the first.'),
  detail: z.unknown(),
})
export type AuditLine = z.infer<typeof AuditLine>

const pin = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/)
  .describe("SHA-256 of a certificate's public key, base64url.")

/** TLS keys of a bridge. */
export const TlsStatus = z.object({
  present: pin.nullable().describe('Null: no TLS, or unknown where the bridge does not run.'),
  next: z.array(
    z.object({
      pin,
      announcedAt: at,
      missing: z.array(z.string()).describe('Approved devices that accept neither this key nor any that their system trusts.'),
    }),
  ),
  approved: z.int().min(0).describe('Approved devices.'),
})
export type TlsStatus = z.infer<typeof TlsStatus>

const Revoked = z.object({ id: z.string(), revoked: z.literal(true) })
const left = z.int().min(0).nullable()

export const Whoami = z.object({
  id: z.string(),
  name: z.string(),
  role: openEnum(keyRoles),
  expiresAt: at.nullable().default(null),
  bridge: z.string(),
  fleet: z.string(),
  quota: z
    .object({ requestsPerMinute: quotaLimit, requestsLeft: left, jobsPerDay: quotaLimit, jobsLeft: left })
    .describe('Null: no limit.'),
})
export type Whoami = z.infer<typeof Whoami>

const loginCode = z.string().regex(/^[\w.-]{1,400}$/)

export const adminOperations = {
  tokens: get('/v1/admin/tokens', 'administer', 'Enrolment tokens', { response: z.object({ tokens: z.array(TokenRecord) }) }),
  createToken: post('/v1/admin/tokens', 'administer', 'Create an enrolment token', {
    body: TokenRequest,
    response: z.object({ token: TokenRecord, secret: z.string().describe('Shown once; only its hash is stored.') }),
  }),
  revokeToken: post('/v1/admin/tokens/:id/revoke', 'administer', 'Revoke an enrolment token', { response: Revoked }),
  keys: get('/v1/admin/keys', 'administer', 'API keys', { response: z.object({ keys: z.array(KeyRecord) }) }),
  createKey: post('/v1/admin/keys', 'administer', 'Create an API key', {
    body: KeyRequest,
    response: z.object({
      id: z.string(),
      key: z.string().describe('Shown once; only its hash is stored.'),
      expiresAt: at.nullable().default(null),
    }),
  }),
  revokeKey: post('/v1/admin/keys/:id/revoke', 'administer', 'Revoke an API key', { response: Revoked }),
  devices: get('/v1/admin/devices', 'read', 'Enrolled devices', { response: z.object({ devices: z.array(DeviceIdentity) }) }),
  approveDevice: post(
    '/v1/admin/devices/:id/approve',
    'administer',
    'Approve a device; its next connection binds its hardware and sets the expiry of its key anew',
    { response: DeviceIdentity },
  ),
  revokeDevice: post('/v1/admin/devices/:id/revoke', 'administer', 'Revoke a device and end its connections', {
    response: DeviceIdentity,
  }),
  tls: get('/v1/admin/tls', 'administer', 'TLS keys of the bridge, and the devices that do not accept the next one yet', {
    response: TlsStatus,
  }),
  announcePin: post('/v1/admin/tls/next', 'administer', 'Announce the next TLS key of the bridge to its devices', {
    body: z.object({ pin }),
    response: TlsStatus,
  }),
  withdrawPin: post('/v1/admin/tls/next/:pin/withdraw', 'administer', 'Withdraw an announced TLS key', {
    response: TlsStatus,
  }),
  audit: get('/v1/admin/audit', 'administer', 'Audit log, latest first', {
    query: z.object({ limit: z.coerce.number().int().min(1).max(10_000).default(100) }),
    response: z.object({ audit: z.array(AuditLine) }),
  }),
  whoami: get('/v1/whoami', 'own-key', 'Name, role and remaining quota of the caller’s key', { response: Whoami }),
  createLogin: post('/v1/browser-logins', 'own-key', 'A code with which a browser logs in, once, as the caller’s key', {
    response: z.object({ code: loginCode, validForS: z.number().positive() }),
  }),
  exchangeLogin: post('/v1/browser-logins/exchange', 'open', 'Exchange a code for a bearer token with the rights of its key', {
    body: z.object({ code: loginCode }),
    response: z.object({ token: z.string().min(1).max(400), validForS: z.number().positive() }),
  }),
} satisfies Operations
