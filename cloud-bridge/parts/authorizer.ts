import { clientName } from '../../core/api/request.ts'
import { readHookSecret } from '../broker/broker-secrets.ts'
import { createAuthorizer } from '../identity/authorizer.ts'
import { Quotas } from '../identity/quotas.ts'
import { answerOwner } from '../llm/endpoint.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { OpenServing } from './serving.ts'
import type { Stores } from './stores.ts'

/** Decides what the caller of an HTTP operation may do, and how often. @throws BrimError CONFIG_INVALID */
export function openAuthorizer(
  { config, proxies, clock, closers, log }: Base,
  { identityStore }: Stores,
  parts: Access & OpenServing,
) {
  const hookSecretFile = config.broker?.hookSecretFile
  const hookSecret = hookSecretFile === undefined ? undefined : readHookSecret(hookSecretFile)
  const quotas = new Quotas(identityStore, config.limits, clock, () => Date.now())
  const authorizer = createAuthorizer({
    gate: parts.grants,
    store: identityStore,
    quotas,
    deviceAnswers: config.deviceAnswers,
    hookSecret,
    onKeyEnd: (key) => parts.serving.purge(answerOwner(clientName(key))),
    proxies,
    clock,
    logger: log('identity'),
  })
  closers.push(authorizer.close)
  return { authorizer, quotas, hookSecret }
}
export type OpenAuthorizer = ReturnType<typeof openAuthorizer>
