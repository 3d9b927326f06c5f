import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { keyRoles } from './access.ts'
import type { DeviceIdentity, TokenRecord } from './rules.ts'
import type { Actor, AuditRecord, IdentityStore, KeyRecord } from './store.ts'

const name = z.string().regex(idPattern, 'small letters, digits, - and _')
const limit = z.int().min(1).nullable().default(null)

export const TokenWish = z.object({
  group: name,
  /** Devices that may enrol with it. */
  uses: z.int().min(1),
  expiresS: z
    .int()
    .min(1)
    .max(366 * 86_400),
  /** Whether its devices need no approval of their own. */
  approve: z.boolean(),
})
export type TokenWish = z.infer<typeof TokenWish>

export const KeyWish = z.object({ name, role: z.enum(keyRoles), requestsPerMinute: limit, jobsPerDay: limit })
export type KeyWish = z.infer<typeof KeyWish>

export type AuditLine = Omit<AuditRecord, 'detail'> & { readonly detail: unknown }

/** What an admin does, on the bridge's machine or by HTTP. */
export interface Administration {
  createToken(wish: TokenWish): Promise<{ token: TokenRecord; secret: string }>
  tokens(): Promise<TokenRecord[]>
  /** @throws BrimError IDENTITY_UNKNOWN, as all that names what there is not */
  revokeToken(id: string): Promise<void>
  createKey(wish: KeyWish): Promise<{ id: string; key: string }>
  keys(): Promise<KeyRecord[]>
  revokeKey(id: string): Promise<void>
  devices(): Promise<DeviceIdentity[]>
  approve(device: string): Promise<DeviceIdentity>
  revoke(device: string): Promise<DeviceIdentity>
  /** The latest first. */
  audit(limit: number): Promise<AuditLine[]>
}

/** @param actor who stands in the audit log for it */
export function administrationOf(store: IdentityStore, actor: Actor): Administration {
  const changed = (device: string, found: boolean): DeviceIdentity => {
    const known = found ? store.device(device) : undefined
    if (known) return known
    throw new BrimError('IDENTITY_UNKNOWN', `no device "${device}" is enrolled`, { hint: '"brim device list" names them' })
  }
  const revoked = (kind: 'token' | 'key', found: boolean) => {
    if (!found)
      throw new BrimError('IDENTITY_UNKNOWN', `there is no such ${kind}`, { hint: `"brim bridge ${kind} list" names them` })
  }
  return {
    createToken: async (wish) => store.createToken(actor, wish),
    tokens: async () => store.tokens(),
    revokeToken: async (id) => revoked('token', store.revokeToken(actor, id)),
    createKey: async ({ name, role, ...quota }) => store.createKey(actor, name, role, quota),
    keys: async () => store.keys(),
    revokeKey: async (id) => revoked('key', store.revokeKey(actor, id)),
    devices: async () => store.devices(),
    approve: async (device) => changed(device, store.approve(actor, device)),
    revoke: async (device) => changed(device, store.revoke(actor, device)),
    audit: async (limit) => store.audit(limit).map((line) => ({ ...line, detail: JSON.parse(line.detail) as unknown })),
  }
}
