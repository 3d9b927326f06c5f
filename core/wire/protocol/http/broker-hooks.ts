import { z } from 'zod'
import { type Operations, post } from './operation.ts'

const text = z.string().nullish()
const emqxClient = { clientid: z.string(), username: text }
const verneClient = { client_id: z.string(), username: text }

const EmqxResult = z.object({ result: z.enum(['allow', 'deny']), is_superuser: z.boolean().optional() })

/** Bodies of VerneMQ's webhooks, by the name in the `vernemq-hook` header. */
export const vernemqHooks = {
  auth_on_register: z.object({ ...verneClient, password: text }),
  auth_on_publish: z.object({ ...verneClient, topic: z.string() }),
  auth_on_subscribe: z.object({ ...verneClient, topics: z.array(z.object({ topic: z.string(), qos: z.number() })) }),
}

/**
 * External brokers ask the bridge which clients may connect, publish and subscribe.
 * https://docs.emqx.com/en/emqx/latest/access-control/authn/http.html, …/authz/http.html, https://docs.vernemq.com/plugindevelopment/webhookplugins
 */
export const brokerHookOperations = {
  emqxAuth: post('/v1/hook/emqx/auth', 'hook-secret', "EMQX's HTTP authenticator", {
    body: z.object({ ...emqxClient, password: text }),
    response: EmqxResult,
  }),
  emqxAcl: post('/v1/hook/emqx/acl', 'hook-secret', "EMQX's HTTP authorizer", {
    body: z.object({ ...emqxClient, action: z.enum(['publish', 'subscribe']), topic: z.string() }),
    response: EmqxResult,
  }),
  vernemq: post('/v1/hook/vernemq', 'hook-secret', "VerneMQ's webhooks; the `vernemq-hook` header names the hook", {
    body: z.looseObject({}),
    // A hook for publishing carries the payload in base64: at most one packet of the control plane.
    maxBodyBytes: 512 * 1024,
    response: z.object({
      result: z.union([z.enum(['ok', 'next']), z.object({ error: z.string() })]),
      topics: z.array(z.object({ topic: z.string(), qos: z.number().describe('128: not granted.') })).optional(),
    }),
  }),
} satisfies Operations
