import { identityOperations } from '../../core/wire/protocol/http/identity.ts'
import type { Routes } from '../http/router.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'
import type { Identities } from '../identity/identities.ts'

/** `/v1/identity…`: how devices enrol and obtain their tokens, and what these prove. */
export function identityRoutes(
  identities: Pick<Identities, 'issueNonce' | 'enrol' | 'grantAccess' | 'renewKey'>,
  gate: Gate,
): Routes {
  return (router) => {
    router.serve(identityOperations.nonce, () => identities.issueNonce())
    router.serve(identityOperations.enrol, ({ body, from }) => identities.enrol(body, from))
    router.serve(identityOperations.session, ({ body, from }) => identities.grantAccess(body, from))
    router.serve(identityOperations.renewKey, ({ body, from }) => identities.renewKey(body, from))
    router.serve(identityOperations.subject, ({ headers }) => {
      return { v: 1, subject: gate.subjectOf(bearerOf(headers.authorization) ?? '') ?? null }
    })
  }
}
