import type { IncomingMessage } from 'node:http'
import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { isSameSecret } from '../../core/kit/base/same-secret.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { noProxies, type Proxies } from '../../core/kit/listen/proxies.ts'
import type { KeyRecord } from '../../core/wire/protocol/http/admin.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { allows } from './access.ts'
import { roleOf } from './acl.ts'
import type { Actor, AuditRecord } from './audit-log.ts'
import { createAuditWriter } from './audit-writer.ts'
import type { BrowserLogins } from './browser-logins.ts'
import { bearerOf, type PresenceGate } from './gate.ts'
import { deviceCaller, type Quotas } from './quotas.ts'
import type { IdentityStore } from './store.ts'

/** The sender of one authorized request. */
export interface Caller {
  /** API key that the request carries. */
  readonly key: KeyRecord | undefined
  /** Device that has proven its identity by the access token that the request carries. */
  readonly device: string | undefined
  /** For which cached prompts and interrupted answers are kept: the key or device; empty: no proof was required. */
  readonly client: string
  /** As the audit log names it. */
  readonly actor: Exclude<Actor, string>
  /**
   * Counts the answers that a request asks for; the request has counted as one of them.
   * @throws BrimError QUOTA_EXCEEDED
   */
  takeAnswers(count: number): void
  /** @throws BrimError QUOTA_EXCEEDED when the key may not submit this many new jobs today */
  requireJobs(count: number): void
  /** Counts new jobs against the key's quota. */
  countJobs(count: number): void
  /** Names the request in the audit log; default: its operation. */
  auditAs(action: string, subject: string, detail?: Readonly<Record<string, unknown>>): void
  /** The store has already written the audit line, in the transaction of the change. */
  auditedByStore(): void
  /** `end` is called when the key is revoked or expires while the response goes on. */
  onRevoked(end: () => void): void
  /** The response has been sent, or its client has disconnected. */
  end(status: number): void
}

/** Decides which HTTP requests are served, counts them against quotas, and writes the audit log. */
export interface Authorizer {
  /** Whether callers must prove their identity now. */
  readonly authRequired: boolean
  /**
   * Every request of a key counts against its quota, and every answer that a device asks for. Administration requires a key even where nothing else does, because
   * its changes outlive that.
   * @throws BrimError NOT_AUTHORIZED, FORBIDDEN, QUOTA_EXCEEDED
   */
  authorize(request: IncomingMessage, operation: Pick<Operation, 'method' | 'path' | 'access'>): Caller
  close(): Promise<void>
}

const anonymous: Caller = {
  key: undefined,
  device: undefined,
  client: '',
  actor: { who: 'anyone', from: '' },
  takeAnswers() {},
  requireJobs() {},
  countJobs() {},
  auditAs() {},
  auditedByStore() {},
  onRevoked() {},
  end() {},
}
/** No proof, no quotas, no audit log. */
export const openToAll: Authorizer = { authRequired: false, authorize: () => anonymous, close: async () => {} }

/** How often revoked keys are looked up: operators revoke them in another process. */
const revocationCheckMs = 1_000

export interface AuthorizerOptions {
  readonly gate: PresenceGate
  readonly store: Pick<IdentityStore, 'keys' | 'keyOf' | 'record'>
  readonly quotas: Quotas
  /** Of browsers. Absent: none. */
  readonly logins?: Pick<BrowserLogins, 'keyOf'>
  /** Whether devices may ask the bridge's models. Default: they may. */
  readonly deviceAnswers?: boolean
  /** Secret that an external broker sends with each hook: as bearer token, or as `secret` in the URL's query. */
  readonly hookSecret?: string | undefined
  /** A key that has sent requests is revoked or has expired. */
  readonly onKeyEnd?: (key: string) => void
  /** Reverse proxies in front of the listener. Absent: none. */
  readonly proxies?: Proxies
  readonly clock: Clock
  readonly logger: Logger
}

export function createAuthorizer({
  gate,
  store,
  quotas,
  logins,
  deviceAnswers = true,
  hookSecret,
  onKeyEnd,
  proxies = noProxies,
  clock,
  logger,
}: AuthorizerOptions): Authorizer {
  /** Responses under way → what ends them. */
  const underWay = new Map<Caller, () => void>()
  /** Keys that have sent requests, and were valid then. */
  const usedKeys = new Set<string>()
  const auditLog = createAuditWriter(store, clock, logger)

  /** A caller without key or device gave no proof; it may be required since. */
  function endRevoked(): void {
    const now = nowIso()
    const valid = new Set(
      store.keys().flatMap(({ id, revokedAt, expiresAt }) => (revokedAt === null && (expiresAt ?? '9') > now ? [id] : [])),
    )
    const isAllowed = ({ key, device }: Caller) =>
      key ? valid.has(key.id) : device !== undefined ? gate.isPresent(`device-${device}`) : !gate.authRequired
    for (const [caller, end] of underWay) if (!isAllowed(caller)) end()
    for (const key of usedKeys) {
      if (valid.has(key)) continue
      usedKeys.delete(key)
      onKeyEnd?.(key)
    }
  }

  const stopChecking = repeatEvery(clock, revocationCheckMs, () => {
    if (underWay.size + usedKeys.size > 0) tryOrLog(logger, 'revoked keys not read', endRevoked)
  })

  function callerOf(
    request: IncomingMessage,
    { method, path: route, access }: Pick<Operation, 'method' | 'path' | 'access'>,
    key: KeyRecord | undefined,
    subject: string | undefined,
  ): Caller {
    const path = (request.url ?? '/').split('?', 1)[0]!
    const role = roleOf(subject ?? '')
    const device = role.kind === 'device' ? role.id : undefined
    const who = key ? `key:${key.name}/${key.id}` : device === undefined ? 'anyone' : `device:${device}`
    const actor = { who, from: proxies.clientOf(request) }
    let line = { action: `${method} ${route}`, subject: path, detail: {} as Readonly<Record<string, unknown>> }
    // Questions change nothing, and are many.
    let audited = request.method === 'GET' || access === 'ask'
    const caller: Caller = {
      key,
      device,
      client: key?.id ?? (device === undefined ? '' : deviceCaller(device)),
      actor,
      takeAnswers(count) {
        if (count <= 1) return
        if (key) quotas.takeRequests(key, count - 1)
        else if (device !== undefined) quotas.takeAnswers(device, count - 1)
      },
      requireJobs: (count) => (key ? quotas.requireJobs(key, count) : undefined),
      countJobs: (count) => (key ? quotas.countJobs(key, count) : undefined),
      auditAs(action, subject, detail = {}) {
        line = { action, subject, detail }
      },
      auditedByStore() {
        audited = true
      },
      onRevoked(end) {
        if (key || device !== undefined || subject === undefined) underWay.set(caller, end)
      },
      end(status) {
        underWay.delete(caller)
        if (audited) return
        audited = true
        auditLog.add({ actor, ...line, outcome: outcomeOf(status), detail: { ...line.detail, status } })
      },
    }
    return caller
  }

  return {
    get authRequired() {
      return gate.authRequired
    },
    authorize(request, operation) {
      const { access } = operation
      if (access === 'open') return anonymous
      if (access === 'hook-secret') {
        if (hookSecret === undefined || !isSameSecret(hookSecretOf(request), hookSecret)) throw wrongHookSecret
        return anonymous
      }
      const token = bearerOf(request.headers.authorization) ?? ''
      const key = store.keyOf(token) ?? logins?.keyOf(token)
      if (key) {
        quotas.takeRequests(key)
        usedKeys.add(key.id)
      }
      const subject = key ? `${key.role}-${key.name}` : gate.subjectOf(token)
      const caller = callerOf(request, operation, key, subject)
      const isOpen = !gate.authRequired && access !== 'administer' && access !== 'own-key'
      const allowed = access === 'own-key' ? key !== undefined : isOpen || allows(subject ?? '', { to: access })
      const { device } = caller
      if (allowed && device !== undefined && access === 'ask') {
        if (!deviceAnswers) throw noDeviceAnswers
        if (operation.method === 'POST') quotas.takeAnswers(device)
      }
      if (allowed) return caller
      if (!key) throw unknownKey
      caller.end(403)
      throw new BrimError('FORBIDDEN', `key ${key.name} has the role ${key.role}; this needs ${requiredRole[access]}`, {
        hint: 'an admin creates other keys: brim bridge key create --role …',
      })
    },
    async close() {
      await stopChecking()
      auditLog.close()
    },
  }
}

/** Status of a request whose client disconnected before the response (as nginx logs it). */
export const clientClosedRequest = 499

function outcomeOf(status: number): AuditRecord['outcome'] {
  // It may have been executed.
  if (status === clientClosedRequest) return 'failed'
  return status < 400 ? 'ok' : status < 500 ? 'refused' : 'failed'
}

const requiredRole = {
  ask: 'client, operator or admin, or a device',
  read: 'viewer or above',
  fetch: 'viewer or above',
  operate: 'operator or above',
  administer: 'admin',
  'own-key': 'any key',
} as const

const unknownKey = new BrimError('NOT_AUTHORIZED', 'the request carries no API key, or one that is unknown, revoked or expired', {
  hint: 'brim login; at the bridge, "brim bridge key create" creates a key',
})

const noDeviceAnswers = new BrimError('FORBIDDEN', "devices may not ask this bridge's models", {
  hint: 'its operator has switched that off (--no-device-answers); HAT sessions are not affected',
})

const wrongHookSecret = new BrimError('NOT_AUTHORIZED', 'the request does not carry the hook secret', {
  hint: 'docs/brokers.md describes how a broker sends it',
})

function hookSecretOf(request: IncomingMessage): string {
  const query = new URL(request.url ?? '/', 'http://bridge').searchParams
  return bearerOf(request.headers.authorization) ?? query.get('secret') ?? ''
}
