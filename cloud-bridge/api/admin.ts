import { BrimError } from '../../core/kit/base/errors.ts'
import { adminOperations } from '../../core/wire/protocol/http/admin.ts'
import type { Routes } from '../http/router.ts'
import { type Administration, administrationOf } from '../identity/administration.ts'
import type { Caller } from '../identity/authorizer.ts'
import type { Quotas } from '../identity/quotas.ts'
import type { IdentityStore } from '../identity/store.ts'
import type { TlsPins } from '../identity/tls-pins.ts'

export interface AdminRoutesOptions {
  readonly store: IdentityStore
  readonly quotas: Quotas
  /** Undefined: no TLS. */
  readonly tlsPins?: Pick<TlsPins, 'present'> | undefined
  readonly bridge: string
  readonly fleet: string
}

/** `/v1/admin…` and `/v1/whoami`: tokens, keys, devices and the audit log, like the commands on the bridge's machine. */
export function adminRoutes({ store, quotas, bridge, fleet, tlsPins }: AdminRoutesOptions): Routes {
  /** The store writes the audit line of a change together with the change; a refused change is audited as a request. */
  async function administer<T>(caller: Caller, action: (admin: Administration) => Promise<T>): Promise<T> {
    const result = await action(administrationOf(store, caller.actor, tlsPins?.present))
    caller.auditedByStore()
    return result
  }
  return (router) => {
    router.serve(adminOperations.tokens, ({ caller }) => administer(caller, async (admin) => ({ tokens: await admin.tokens() })))
    router.serve(adminOperations.createToken, ({ caller, body }) => administer(caller, (admin) => admin.createToken(body)))
    router.serve(adminOperations.revokeToken, async ({ caller, params: { id } }) => {
      await administer(caller, (admin) => admin.revokeToken(id))
      return { id, revoked: true }
    })
    router.serve(adminOperations.keys, ({ caller }) => administer(caller, async (admin) => ({ keys: await admin.keys() })))
    router.serve(adminOperations.createKey, ({ caller, body }) => administer(caller, (admin) => admin.createKey(body)))
    router.serve(adminOperations.revokeKey, async ({ caller, params: { id } }) => {
      await administer(caller, (admin) => admin.revokeKey(id))
      return { id, revoked: true }
    })
    router.serve(adminOperations.devices, ({ caller }) =>
      administer(caller, async (admin) => ({ devices: await admin.devices() })),
    )
    router.serve(adminOperations.approveDevice, ({ caller, params: { id } }) => administer(caller, (admin) => admin.approve(id)))
    router.serve(adminOperations.revokeDevice, ({ caller, params: { id } }) => administer(caller, (admin) => admin.revoke(id)))
    router.serve(adminOperations.tls, ({ caller }) => administer(caller, (admin) => admin.tls()))
    router.serve(adminOperations.announcePin, async ({ caller, body: { pin } }) => {
      if (!tlsPins)
        throw new BrimError('REQUEST_INVALID', 'this bridge has no TLS key of its own', {
          hint: 'its devices reach it through a proxy, or without TLS',
        })
      return administer(caller, async (admin) => {
        await admin.announcePin(pin)
        return admin.tls()
      })
    })
    router.serve(adminOperations.withdrawPin, async ({ caller, params: { pin } }) =>
      administer(caller, async (admin) => {
        await admin.withdrawPin(pin)
        return admin.tls()
      }),
    )
    router.serve(adminOperations.audit, ({ caller, query: { limit } }) =>
      administer(caller, async (admin) => ({ audit: await admin.audit(limit) })),
    )
    router.serve(adminOperations.whoami, ({ caller: { key } }) => {
      if (!key) throw new Error('whoami is served to keys only')
      const { id, name, role, expiresAt } = key
      return { id, name, role, expiresAt, bridge, fleet, quota: quotas.left(key) }
    })
  }
}
