import { brokerHookOperations, vernemqHooks } from '../../core/wire/protocol/http/broker-hooks.ts'
import { parseBody } from '../http/errors.ts'
import type { Routes } from '../http/router.ts'
import { type AccessRequest, allows } from '../identity/access.ts'
import { roleOf } from '../identity/acl.ts'
import type { Grants } from '../identity/grants.ts'

export interface BrokerHookOptions {
  readonly fleet: string
  readonly gate: Pick<Grants, 'subjectOf' | 'isPresent'>
}

/** Return code of a SUBACK: not granted. */
const notGranted = 128

/** The embedded broker's rules for external brokers that ask: EMQX's HTTP authenticator and authorizer, VerneMQ's webhooks. */
export function brokerHookRoutes({ fleet, gate }: BrokerHookOptions): Routes {
  /** The bridge connects as a device in order to end the device's connection (broker/take-over.ts). */
  const isItself = (clientId: string, username: string) =>
    username === clientId || (roleOf(username).kind === 'bridge' && roleOf(clientId).kind === 'device')

  function mayJoin(clientId: string, username: string, password: string): boolean {
    const subject = gate.subjectOf(password)
    return subject !== undefined && subject === username && allows(subject, { to: 'join' }) && isItself(clientId, username)
  }

  const may = (clientId: string, username: string, access: AccessRequest): boolean =>
    isItself(clientId, username) && gate.isPresent(username) && allows(clientId, access)
  const mayPublish = (clientId: string, username: string, topic: string) =>
    may(clientId, username, { to: 'publish', topic, fleet })
  const maySubscribe = (clientId: string, username: string, filter: string) =>
    may(clientId, username, { to: 'subscribe', filter, fleet })

  const verneResult = (allowed: boolean) => ({ result: allowed ? ('ok' as const) : { error: 'not_allowed' } })
  const onVernemq: Readonly<Record<string, (body: unknown) => ReturnType<typeof verneResult>>> = {
    auth_on_register(body) {
      const { client_id, username, password } = parseBody(vernemqHooks.auth_on_register, body)
      return verneResult(mayJoin(client_id, username ?? '', password ?? ''))
    },
    auth_on_publish(body) {
      const { client_id, username, topic } = parseBody(vernemqHooks.auth_on_publish, body)
      return verneResult(mayPublish(client_id, username ?? '', topic))
    },
    auth_on_subscribe(body) {
      const { client_id, username, topics } = parseBody(vernemqHooks.auth_on_subscribe, body)
      const granted = topics.map(({ topic, qos }) => ({
        topic,
        qos: maySubscribe(client_id, username ?? '', topic) ? qos : notGranted,
      }))
      return { ...verneResult(true), topics: granted }
    },
  }

  return (router) => {
    router.serve(brokerHookOperations.emqxAuth, ({ body: { clientid, username, password } }) => ({
      result: mayJoin(clientid, username ?? '', password ?? '') ? 'allow' : 'deny',
      is_superuser: false,
    }))
    router.serve(brokerHookOperations.emqxAcl, ({ body: { clientid, username, action, topic } }) => {
      const allowed = (action === 'publish' ? mayPublish : maySubscribe)(clientid, username ?? '', topic)
      return { result: allowed ? 'allow' : 'deny' }
    })
    router.serve(brokerHookOperations.vernemq, ({ body, headers }) => {
      const hook = onVernemq[String(headers['vernemq-hook'])]
      // VerneMQ's other plug-ins answer the other hooks.
      return hook ? hook(body) : { result: 'next' }
    })
  }
}
