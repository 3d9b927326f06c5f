import { BrimError } from '../../core/kit/base/errors.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { adminOperations, type DeviceIdentity } from '../../core/wire/protocol/http/admin.ts'
import type { BodyOf, Operation, ParamsOf, QueryOf, ResponseOf } from '../../core/wire/protocol/http/operation.ts'
import type { Actor } from './audit-log.ts'
import type { IdentityStore } from './store.ts'

/** What an admin may do, on the bridge's own machine or by HTTP. */
const { whoami: _, createLogin: __, exchangeLogin: ___, ...operations } = adminOperations
export const administrationOperations = operations
type Operations = typeof operations

interface AdministrationRequest<O extends Operation> {
  readonly params: ParamsOf<O>
  readonly query: QueryOf<O>
  readonly body: BodyOf<O>
}

/** By the names of the operations. One with an unknown id throws BrimError IDENTITY_UNKNOWN. */
type Administration = {
  readonly [Name in keyof Operations]: (request: AdministrationRequest<Operations[Name]>) => ResponseOf<Operations[Name]>
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
  const revoked = (kind: 'token' | 'key', id: string, found: boolean) => {
    if (found) return { id, revoked: true as const }
    throw new BrimError('IDENTITY_UNKNOWN', `there is no such ${kind}`, { hint: `"brim bridge ${kind} list" lists them` })
  }
  const tls = () => ({
    present: presentPin ?? null,
    next: store.nextPins().map((next) => ({ ...next, missing: store.devicesWithoutPin(next.pin) })),
    approved: store.devices().filter(({ status }) => status === 'approved').length,
  })
  return {
    createToken: ({ body }) => store.createToken(actor, body),
    tokens: () => ({ tokens: store.tokens() }),
    revokeToken: ({ params: { id } }) => revoked('token', id, store.revokeToken(actor, id)),
    createKey: ({ body: { name, role, expiresS, ...quota } }) => store.createKey(actor, name, role, quota, expiresS),
    keys: () => ({ keys: store.keys() }),
    revokeKey: ({ params: { id } }) => revoked('key', id, store.revokeKey(actor, id)),
    devices: () => ({ devices: store.devices() }),
    approveDevice: ({ params: { id } }) => changed(id, store.approve(actor, id)),
    revokeDevice: ({ params: { id } }) => changed(id, store.revoke(actor, id)),
    tls,
    announcePin({ body: { pin } }) {
      store.announcePin(actor, pin)
      return tls()
    },
    withdrawPin({ params: { pin } }) {
      if (store.withdrawPin(actor, pin)) return tls()
      throw new BrimError('IDENTITY_UNKNOWN', 'no such TLS key is announced', { hint: '"brim bridge tls status" lists them' })
    },
    /** Latest first. */
    audit: ({ query: { limit } }) => ({
      audit: store.audit(limit).map((line) => ({ ...line, detail: storedJson(line.detail) ?? line.detail })),
    }),
  }
}

/** Carries out one of these operations. */
export function carryOut(
  operation: Operation,
  request: { readonly params: object; readonly query: unknown; readonly body: unknown },
  administration: Administration,
): unknown {
  const name = (Object.keys(operations) as (keyof Operations)[]).find((name) => operations[name] === operation)
  if (name === undefined) throw new Error(`${operation.path} is no operation of an admin`)
  // The request is of this operation: its schemas have read it.
  return (administration[name] as (request: unknown) => unknown)(request)
}
