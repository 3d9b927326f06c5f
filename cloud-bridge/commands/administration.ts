import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { adminPath } from '../api/admin.ts'
import { keyRoles } from '../identity/access.ts'
import { type Administration, administrationOf } from '../identity/administration.ts'
import { openIdentityStore } from '../identity/store.ts'
import { accessOf, bridgeOptions } from './bridge-access.ts'
import { type BridgeAccess, BridgeClient } from './bridge-client.ts'
import { readLogins } from './login/logins.ts'
import { bridgeStateDir } from './state-dir.ts'

/** For commands that manage tokens, keys and devices: over HTTP, or in the state folder of this machine's bridge. */
export const administrationOptions = {
  stateDir: z
    .string()
    .meta({
      description: 'folder of a bridge on this machine, running or not',
      fallback: "the login's bridge, else ~/.local/state/brim/bridge",
    })
    .optional(),
  ...bridgeOptions,
}
export type AdministrationOptions = z.output<z.ZodObject<typeof administrationOptions>>

/**
 * Over HTTP where a bridge or key is given, or the operator is logged in; else in the folder of this machine's bridge.
 * @throws BrimError USAGE, IDENTITY_INVALID, STORE_FAILED, and what `use` throws
 */
export async function administer<T>(
  { stateDir, ...options }: AdministrationOptions,
  io: Io,
  use: (administration: Administration, at: BridgeAccess | undefined) => Promise<T>,
): Promise<T> {
  const isRemote = options.bridgeUrl !== undefined || options.keyFile !== undefined
  if (isRemote && stateDir !== undefined)
    throw new BrimError('USAGE', '--state-dir is a folder of this machine; --bridge-url and --key-file are for HTTP', {
      hint: 'give one or the other',
    })
  if (isRemote || (stateDir === undefined && readLogins(io).current !== null)) {
    const access = await accessOf(options, io)
    return use(overHttp(new BridgeClient(access, io.signal)), access)
  }
  const store = openIdentityStore(bridgeStateDir(stateDir, io))
  try {
    // A user who can write the bridge's database is an admin.
    return await use(administrationOf(store, `operator:${io.env.USER || 'unknown'}`), undefined)
  } finally {
    store.close()
  }
}

const Token = z.object({
  id: z.string(),
  group: z.string(),
  usesLeft: z.number(),
  approve: z.boolean(),
  createdAt: z.string(),
  expiresAt: z.string(),
  revokedAt: z.string().nullable(),
})
const Key = z.object({
  id: z.string(),
  name: z.string(),
  role: z.enum(keyRoles),
  createdAt: z.string(),
  revokedAt: z.string().nullable(),
  requestsPerMinute: z.number().nullable(),
  jobsPerDay: z.number().nullable(),
})
const Device = z.object({
  device: z.string(),
  group: z.string(),
  status: z.enum(['pending', 'approved', 'revoked']),
  publicKey: z.string(),
  tokenId: z.string(),
  enrolledAt: z.string(),
  hardware: z.string().nullable(),
  clone: z.string().nullable(),
})
const Line = z.object({
  at: z.string(),
  actor: z.string(),
  from: z.string().nullable(),
  action: z.string(),
  subject: z.string(),
  outcome: z.enum(['ok', 'refused', 'failed']),
  detail: z.unknown(),
})

function overHttp(client: BridgeClient): Administration {
  const list = async <T>(what: string, schema: z.ZodType<T>): Promise<T> => schema.parse(await client.get(`${adminPath}/${what}`))
  const change = async <T>(what: string, schema: z.ZodType<T>, body: unknown = {}): Promise<T> =>
    schema.parse(await client.post(`${adminPath}/${what}`, body))
  const one = (kind: string, id: string, verb: string) => `${kind}/${encodeURIComponent(id)}/${verb}`
  return {
    createToken: (wish) => change('tokens', z.object({ token: Token, secret: z.string() }), wish),
    tokens: async () => (await list('tokens', z.object({ tokens: z.array(Token) }))).tokens,
    revokeToken: async (id) => void (await change(one('tokens', id, 'revoke'), z.unknown())),
    createKey: (wish) => change('keys', z.object({ id: z.string(), key: z.string() }), wish),
    keys: async () => (await list('keys', z.object({ keys: z.array(Key) }))).keys,
    revokeKey: async (id) => void (await change(one('keys', id, 'revoke'), z.unknown())),
    devices: async () => (await list('devices', z.object({ devices: z.array(Device) }))).devices,
    approve: (device) => change(one('devices', device, 'approve'), Device),
    revoke: (device) => change(one('devices', device, 'revoke'), Device),
    audit: async (limit) => (await list(`audit?limit=${limit}`, z.object({ audit: z.array(Line) }))).audit,
  }
}
