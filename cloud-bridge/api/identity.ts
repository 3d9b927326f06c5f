import { identityOperations } from '../../core/wire/protocol/http/identity.ts'
import type { Routes } from '../http/router.ts'
import type { Identities } from '../identity/identities.ts'

/** `/v1/identity…`: how devices enrol and obtain their tokens. */
export function identityRoutes(identities: Pick<Identities, 'issueNonce' | 'enrol' | 'grantAccess' | 'renewKey'>): Routes {
  return (router) => {
    router.serve(identityOperations.nonce, () => identities.issueNonce())
    router.serve(identityOperations.enrol, ({ body, from }) => identities.enrol(body, from))
    router.serve(identityOperations.session, ({ body, from }) => identities.grantAccess(body, from))
    router.serve(identityOperations.renewKey, ({ body, from }) => identities.renewKey(body, from))
  }
}
