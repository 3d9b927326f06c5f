import { BrimError } from '../../core/kit/base/errors.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type {
  AuditLine,
  DeviceIdentity,
  KeyRecord,
  KeyRequest,
  TlsStatus,
  TokenRecord,
  TokenRequest,
} from '../../core/wire/protocol/http/admin.ts'
import type { Actor } from './audit-log.ts'
import type { IdentityStore } from './store.ts'

/** What an admin may do, on the bridge's own machine or by HTTP. A method with an unknown id throws BrimError IDENTITY_UNKNOWN. */
export interface Administration {
  createToken(request: TokenRequest): Promise<{ token: TokenRecord; secret: string }>
  tokens(): Promise<TokenRecord[]>
  revokeToken(id: string): Promise<void>
  createKey(request: KeyRequest): Promise<{ id: string; key: string; expiresAt: string | null }>
  keys(): Promise<KeyRecord[]>
  revokeKey(id: string): Promise<void>
  devices(): Promise<DeviceIdentity[]>
  approve(device: string): Promise<DeviceIdentity>
  revoke(device: string): Promise<DeviceIdentity>
  /** The TLS keys of the bridge, and the devices that do not accept the next one yet. */
  tls(): Promise<TlsStatus>
  announcePin(pin: string): Promise<void>
  withdrawPin(pin: string): Promise<void>
  /** Latest first. */
  audit(limit: number): Promise<AuditLine[]>
}

/**
 * @param actor as the audit log names it
 * @param presentPin of the TLS key that the bridge shows; undefined: unknown here, or no TLS
 */
export function administrationOf(store: IdentityStore, actor: Actor, presentPin?: string): Administration {
  const changed = (device: string, found: boolean): DeviceIdentity => {
    const known = found ? store.device(device) : undefined
    if (known) return known
    throw new BrimError('IDENTITY_UNKNOWN', `no device "${device}" is enrolled`, { hint: '"brim device list" lists them' })
  }
  const revoked = (kind: 'token' | 'key', found: boolean) => {
    if (!found)
      throw new BrimError('IDENTITY_UNKNOWN', `there is no such ${kind}`, { hint: `"brim bridge ${kind} list" lists them` })
  }
  return {
    createToken: async (request) => store.createToken(actor, request),
    tokens: async () => store.tokens(),
    revokeToken: async (id) => revoked('token', store.revokeToken(actor, id)),
    createKey: async ({ name, role, expiresS, ...quota }) => store.createKey(actor, name, role, quota, expiresS),
    keys: async () => store.keys(),
    revokeKey: async (id) => revoked('key', store.revokeKey(actor, id)),
    devices: async () => store.devices(),
    approve: async (device) => changed(device, store.approve(actor, device)),
    revoke: async (device) => changed(device, store.revoke(actor, device)),
    tls: async () => ({
      present: presentPin ?? null,
      next: store.nextPins().map((next) => ({ ...next, missing: store.devicesWithoutPin(next.pin) })),
      approved: store.devices().filter(({ status }) => status === 'approved').length,
    }),
    announcePin: async (pin) => store.announcePin(actor, pin),
    async withdrawPin(pin) {
      if (!store.withdrawPin(actor, pin))
        throw new BrimError('IDENTITY_UNKNOWN', 'no such TLS key is announced', { hint: '"brim bridge tls status" lists them' })
    },
    audit: async (limit) => store.audit(limit).map((line) => ({ ...line, detail: storedJson(line.detail) ?? line.detail })),
  }
}
