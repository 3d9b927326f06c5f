import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { understood } from '../http/json.ts'
import { allows } from '../identity/access.ts'
import { roleOf } from '../identity/acl.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'

/** Brokers that ask the bridge, by HTTP POST, who may do what. */
export const hookPaths = { emqxAuth: '/v1/hook/emqx/auth', emqxAcl: '/v1/hook/emqx/acl', vernemq: '/v1/hook/vernemq' } as const

/** VerneMQ shows what is published too, in base64: at most a packet of the control plane. */
export const hookBodyBytes = { [hookPaths.vernemq]: 512 * 1024 }

export interface HookOptions {
  /** What the broker shows with each request: as bearer token, or as `secret` in the URL's query. */
  readonly secret: string
  readonly fleet: string
  readonly gate: Gate
  /** Whether whoever this client id stands for may be connected now. */
  readonly isPresent: (clientId: string) => boolean
}

/** What answers a POST. */
export type HookRoute = (body: unknown, from: string, request: IncomingMessage) => unknown

const name = z.string().nullish()
const client = { clientid: z.string(), username: name }
const EmqxAuth = z.object({ ...client, password: name })
const EmqxAcl = z.object({ ...client, action: z.enum(['publish', 'subscribe']), topic: z.string() })
const verneClient = { client_id: z.string(), username: name }
const VerneRegister = z.object({ ...verneClient, password: name })
const VernePublish = z.object({ ...verneClient, topic: z.string() })
const VerneSubscribe = z.object({ ...verneClient, topics: z.array(z.object({ topic: z.string(), qos: z.number() })) })

/** Of a SUBACK: not granted. */
const notGranted = 128

/**
 * The rules of the embedded broker for brokers that ask: EMQX's HTTP authenticator and authorizer, VerneMQ's webhooks.
 * https://docs.emqx.com/en/emqx/latest/access-control/authn/http.html, …/authz/http.html, https://docs.vernemq.com/plugindevelopment/webhookplugins
 * @returns path → what answers; it throws BrimError NOT_AUTHORIZED, REQUEST_INVALID
 */
export function hookRoutes({ secret, fleet, gate, isPresent }: HookOptions): Record<string, HookRoute> {
  /** The bridge may connect as any device: that is how it takes a device's place (take-place.ts). */
  const isItself = (clientId: string, username: string) =>
    username === clientId || (roleOf(username).kind === 'bridge' && roleOf(clientId).kind === 'device')

  function mayJoin(clientId: string, username: string, password: string): boolean {
    const subject = gate.subjectOf(password)
    return subject !== undefined && subject === username && allows(subject, { to: 'join' }) && isItself(clientId, username)
  }

  function may(clientId: string, username: string, access: Parameters<typeof allows>[1]): boolean {
    return isItself(clientId, username) && isPresent(username) && allows(clientId, access)
  }

  const emqxAuth = ({ clientid, username, password }: z.infer<typeof EmqxAuth>) => ({
    result: mayJoin(clientid, username ?? '', password ?? '') ? 'allow' : 'deny',
    is_superuser: false,
  })
  const emqxAcl = ({ clientid, username, action, topic }: z.infer<typeof EmqxAcl>) => {
    const access =
      action === 'publish' ? ({ to: action, topic, fleet } as const) : ({ to: action, filter: topic, fleet } as const)
    return { result: may(clientid, username ?? '', access) ? 'allow' : 'deny' }
  }
  const verneResult = (allowed: boolean) => ({ result: allowed ? 'ok' : { error: 'not_allowed' } })
  const verneHooks: Record<string, (body: unknown) => unknown> = {
    auth_on_register: (body) => {
      const { client_id, username, password } = understood(VerneRegister, body)
      return verneResult(mayJoin(client_id, username ?? '', password ?? ''))
    },
    auth_on_publish: (body) => {
      const { client_id, username, topic } = understood(VernePublish, body)
      return verneResult(may(client_id, username ?? '', { to: 'publish', topic, fleet }))
    },
    auth_on_subscribe: (body) => {
      const { client_id, username, topics } = understood(VerneSubscribe, body)
      const granted = topics.map(({ topic, qos }) =>
        may(client_id, username ?? '', { to: 'subscribe', filter: topic, fleet }) ? { topic, qos } : { topic, qos: notGranted },
      )
      return { result: 'ok', topics: granted }
    },
  }

  const guarded =
    (route: (body: unknown, request: IncomingMessage) => unknown): HookRoute =>
    (body, _from, request) => {
      if (!isSame(shownBy(request), secret))
        throw new BrimError('NOT_AUTHORIZED', 'not without the secret of this hook', {
          hint: 'docs/brokers.md says how a broker shows it',
        })
      return route(body, request)
    }
  return {
    [hookPaths.emqxAuth]: guarded((body) => emqxAuth(understood(EmqxAuth, body))),
    [hookPaths.emqxAcl]: guarded((body) => emqxAcl(understood(EmqxAcl, body))),
    [hookPaths.vernemq]: guarded((body, request) => {
      const hook = verneHooks[String(request.headers['vernemq-hook'])]
      // Any other hook is somebody else's to answer.
      return hook ? hook(body) : { result: 'next' }
    }),
  }
}

function shownBy(request: IncomingMessage): string {
  const query = new URL(request.url ?? '/', 'http://bridge').searchParams
  return bearerOf(request.headers.authorization) ?? query.get('secret') ?? ''
}

/** In a time that tells nothing of where they differ. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}
