import { clientName } from '../../core/answer/api/request.ts'
import { readHookSecret } from '../broker/broker-secrets.ts'
import { type Authorizer, createAuthorizer } from '../identity/authorizer.ts'
import { BrowserLogins } from '../identity/browser-logins.ts'
import { Quotas } from '../identity/quotas.ts'
import { answerOwner } from '../llm/endpoint.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'
import type { OpenServing } from './serving.ts'
import type { Stores } from './stores.ts'

export interface Authorization {
  readonly authorizer: Authorizer
  readonly quotas: Quotas
  readonly logins: BrowserLogins
  /** Of an external broker that asks for authorization; undefined: none does. */
  readonly hookSecret: string | undefined
}

/** Decides what the caller of an HTTP operation may do, and how often. @throws BrimError CONFIG_INVALID */
export function openAuthorizer(
  { config, clock, closers, logger }: Base,
  { proxies }: Network,
  { identityStore }: Stores,
  { grants }: Access,
  { serving }: OpenServing,
): Authorization {
  const hookSecretFile = config.broker?.hookSecretFile
  const hookSecret = hookSecretFile === undefined ? undefined : readHookSecret(hookSecretFile)
  const quotas = new Quotas(identityStore, config.limits, clock, () => Date.now())
  const logins = new BrowserLogins(identityStore, clock)
  const authorizer = createAuthorizer({
    gate: grants,
    store: identityStore,
    quotas,
    logins,
    deviceAnswers: config.deviceAnswers,
    hookSecret,
    onKeyEnd: (key) => serving.purge(answerOwner(clientName(key))),
    proxies,
    clock,
    logger: logger.child({ component: 'identity' }),
  })
  closers.push(authorizer.close)
  return { authorizer, quotas, logins, hookSecret }
}
