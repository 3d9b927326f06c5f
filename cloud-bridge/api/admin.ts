import { BrimError } from '../../core/kit/base/errors.ts'
import { adminOperations } from '../../core/wire/protocol/http/admin.ts'
import type { Routes } from '../http/router.ts'
import { administrationOf, administrationOperations, carryOut } from '../identity/administration.ts'
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
  return (router) => {
    for (const operation of Object.values(administrationOperations))
      router.serve(operation, (request) => {
        if (operation === adminOperations.announcePin && !tlsPins) throw noTlsKey
        const { caller } = request
        const result = carryOut(operation, request, administrationOf(store, caller.actor, tlsPins?.present))
        // The store writes the audit line of a change together with the change; a refused change is audited as a request.
        caller.auditedByStore()
        return result as never
      })
    router.serve(adminOperations.whoami, ({ caller: { key } }) => {
      if (!key) throw new Error('whoami is served to keys only')
      const { id, name, role, expiresAt } = key
      return { id, name, role, expiresAt, bridge, fleet, quota: quotas.left(key) }
    })
  }
}

const noTlsKey = new BrimError('REQUEST_INVALID', 'this bridge has no TLS key of its own', {
  hint: 'its devices reach it through a proxy, or without TLS',
})
