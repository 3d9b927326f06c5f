import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { allows } from './access.ts'
import { addressOf, bearerOf, type Gate } from './gate.ts'
import type { Quotas } from './quotas.ts'
import type { Actor, AuditEntry, AuditRecord, IdentityStore, KeyRecord } from './store.ts'

/** What a request needs whoever sends it to be allowed to do; `own-key`: anything at all, by a key. */
export type Need = 'read' | 'fetch' | 'operate' | 'administer' | 'own-key'

/** A request that was let in. */
export interface Call {
  /** That was shown. */
  readonly key: KeyRecord | undefined
  /** Who stands in the audit log. */
  readonly actor: Exclude<Actor, string>
  /** @throws BrimError QUOTA_EXCEEDED where the key may not have so many new jobs today */
  requireJobs(wanted: number): void
  /** So many new jobs have been taken in. */
  countJobs(taken: number): void
  /** What it is called in the audit log; without, its method and path. */
  describe(action: string, subject: string, detail?: Readonly<Record<string, unknown>>): void
  /** It stands in the audit log already, in one transaction with what it has changed. */
  isRecorded(): void
  /** Its answer goes on for a while: what ends it where the key is revoked meanwhile. */
  cutBy(cut: () => void): void
  /** The answer has been sent. */
  ended(status: number): void
}

/** Who may ask by HTTP, how much, and what of it is remembered. */
export interface Callers {
  /** Whether anybody is asked who they are now. */
  readonly asks: boolean
  /**
   * Every request of a key counts against its quota. Administering needs a key even where nobody else is asked for one: what
   * it changes outlives that.
   * @throws BrimError NOT_AUTHORIZED, FORBIDDEN, QUOTA_EXCEEDED
   */
  admit(request: IncomingMessage, need: Need): Call
  close(): void
}

const unrecorded: Call = {
  key: undefined,
  actor: { who: 'anyone', from: '' },
  requireJobs() {},
  countJobs() {},
  describe() {},
  isRecorded() {},
  cutBy() {},
  ended() {},
}
/** Where nobody is asked, nothing is counted, and nothing is remembered. */
export const everybody: Callers = { asks: false, admit: () => unrecorded, close() {} }

/** How often keys that were revoked meanwhile are looked for. */
const watchEveryMs = 1_000

export interface CallersOptions {
  readonly gate: Gate
  readonly store: IdentityStore
  readonly quotas: Quotas
  readonly clock: Clock
  readonly logger: Logger
}

export function createCallers({ gate, store, quotas, clock, logger }: CallersOptions): Callers {
  /** Answers under way of keys → what ends them. */
  const underWay = new Map<Call, () => void>()
  const stopping = new AbortController()

  /** Of this turn: a commit for each call would cost a busy bridge as much as its jobs do. */
  let entries: AuditEntry[] = []

  function record(entry: AuditEntry): void {
    if (entries.push(entry) === 1) setImmediate(write)
  }

  function write(): void {
    const due = entries
    entries = []
    try {
      if (due.length > 0) store.record(due)
    } catch (err) {
      logger.error({ err, entries: due.length }, 'audit log cannot be written')
    }
  }

  function cutRevoked(): void {
    const revoked = new Set(store.keys().flatMap(({ id, revokedAt }) => (revokedAt === null ? [] : [id])))
    for (const [{ key }, cut] of underWay) if (key && revoked.has(key.id)) cut()
  }

  async function watch(): Promise<void> {
    for (;;) {
      await clock.sleep(watchEveryMs, stopping.signal).catch(() => {})
      if (stopping.signal.aborted) return
      try {
        if (underWay.size > 0) cutRevoked()
      } catch (err) {
        logger.error({ err }, 'revocations cannot be read')
      }
    }
  }
  void watch()

  function outcomeOf(status: number): AuditRecord['outcome'] {
    return status < 400 ? 'ok' : status < 500 ? 'refused' : 'failed'
  }

  function callOf(request: IncomingMessage, key: KeyRecord | undefined): Call {
    const from = addressOf(request)
    const path = (request.url ?? '/').split('?', 1)[0]!
    const actor = { who: key ? `key:${key.name}/${key.id}` : 'anyone', from }
    let line = { action: `${request.method} ${path}`, subject: path, detail: {} as Readonly<Record<string, unknown>> }
    let recorded = request.method === 'GET' || request.method === 'HEAD'
    const call: Call = {
      key,
      actor,
      requireJobs: (wanted) => (key ? quotas.requireJobs(key, wanted) : undefined),
      countJobs: (taken) => (key ? quotas.countJobs(key, taken) : undefined),
      describe(action, subject, detail = {}) {
        line = { action, subject, detail }
      },
      isRecorded() {
        recorded = true
      },
      cutBy(cut) {
        if (key) underWay.set(call, cut)
      },
      ended(status) {
        underWay.delete(call)
        if (recorded) return
        recorded = true
        record({ actor, ...line, outcome: outcomeOf(status), detail: { ...line.detail, status } })
      },
    }
    return call
  }

  return {
    get asks() {
      return gate.asks
    },
    admit(request, need) {
      const token = bearerOf(request.headers.authorization) ?? ''
      const key = store.keyOf(token)
      if (key) quotas.takeRequest(key)
      const call = callOf(request, key)
      const isOpen = !gate.asks && need !== 'administer' && need !== 'own-key'
      const may = need === 'own-key' ? key !== undefined : isOpen || allows(gate.subjectOf(token) ?? '', { to: need })
      if (may) return call
      if (!key) throw unknown
      call.ended(403)
      throw new BrimError('FORBIDDEN', `key ${key.name} is ${roleName[key.role]}'s; this is for ${neededRole[need]}`, {
        hint: 'an admin makes others: brim bridge key create --role …',
      })
    },
    close() {
      stopping.abort()
      write()
    },
  }
}

const roleName = { viewer: 'a viewer', operator: 'an operator', admin: 'an admin' } as const
const neededRole = {
  read: 'viewers',
  fetch: 'viewers and devices',
  operate: 'operators',
  administer: 'admins',
  'own-key': 'all keys',
} as const

const unknown = new BrimError('NOT_AUTHORIZED', 'this bridge knows no such key, or none was shown', {
  hint: 'brim login; at the bridge "brim bridge key create" makes one',
})
