import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import type { Handler } from '../http/http-server.ts'
import { answer, bodyOf, noSuchPath, understood } from '../http/json.ts'
import { type Administration, administrationOf, KeyWish, TokenWish } from '../identity/administration.ts'
import type { Call } from '../identity/callers.ts'
import type { Quotas } from '../identity/quotas.ts'
import type { IdentityStore } from '../identity/store.ts'

export const adminPath = '/v1/admin'
/** Who one is here, and what is left of one's quota. */
export const whoamiPath = '/v1/whoami'

const maxAuditLines = 10_000
const AuditQuery = z.object({ limit: z.coerce.number().int().min(1).max(maxAuditLines).default(100) })

export interface AdminHttpOptions {
  readonly store: IdentityStore
  readonly quotas: Quotas
  readonly bridge: string
  readonly fleet: string
}

interface Asked {
  readonly admin: Administration
  /** Of which token, key or device. */
  readonly id: string
  readonly request: IncomingMessage
}
type Action = (asked: Asked) => Promise<unknown>

/** `/v1/admin…`: tokens, keys, devices and the audit log from another machine, as the commands on the bridge's own do it. */
export function createAdminHttp({ store, quotas, bridge, fleet }: AdminHttpOptions) {
  const actions: Readonly<Record<string, Action>> = {
    'GET tokens': async ({ admin }) => ({ tokens: await admin.tokens() }),
    'POST tokens': async ({ admin, request }) => admin.createToken(understood(TokenWish, await bodyOf(request))),
    'POST tokens revoke': async ({ admin, id }) => {
      await admin.revokeToken(id)
      return { id, revoked: true }
    },
    'GET keys': async ({ admin }) => ({ keys: await admin.keys() }),
    'POST keys': async ({ admin, request }) => admin.createKey(understood(KeyWish, await bodyOf(request))),
    'POST keys revoke': async ({ admin, id }) => {
      await admin.revokeKey(id)
      return { id, revoked: true }
    },
    'GET devices': async ({ admin }) => ({ devices: await admin.devices() }),
    'POST devices approve': ({ admin, id }) => admin.approve(id),
    'POST devices revoke': ({ admin, id }) => admin.revoke(id),
    'GET audit': async ({ admin, request }) => {
      const { searchParams } = new URL(request.url ?? '/', 'http://localhost')
      return { audit: await admin.audit(understood(AuditQuery, Object.fromEntries(searchParams)).limit) }
    },
  }

  async function route(request: IncomingMessage, response: ServerResponse, call: Call): Promise<void> {
    const [what, id = '', verb] = partsOf(request)
    const action = actions[[request.method, what, verb].filter(Boolean).join(' ')]
    if (!action || (id !== '' && verb === undefined)) throw noSuchPath
    const result = await action({ admin: administrationOf(store, call.actor), id, request })
    // The store has written its line with the change itself.
    call.isRecorded()
    answer(response, 200, result)
  }

  const admin: Handler = {
    handle: route,
    /** Who is enrolled may be read like all else that is told of devices. */
    needs: (request) => (request.method === 'GET' && partsOf(request)[0] === 'devices' ? 'read' : 'administer'),
  }
  const whoami: Handler = {
    handle(_request, response, { key }) {
      if (!key) throw new Error('whoami needs a key')
      const { id, name, role } = key
      answer(response, 200, { id, name, role, bridge, fleet, quota: quotas.left(key) })
    },
    needs: () => 'own-key',
  }
  return { admin, whoami }
}

/** What follows `/v1/admin/`: what it is about, which of them, what is to be done. */
function partsOf(request: IncomingMessage): string[] {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost')
  return pathname
    .slice(adminPath.length + 1)
    .split('/')
    .map(decoded)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
