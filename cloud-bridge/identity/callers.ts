import type { IncomingMessage } from 'node:http'
import { BrimError } from '../../core/base/errors.ts'
import { allows } from './access.ts'
import { bearerOf, type Gate } from './gate.ts'
import type { Quotas } from './quotas.ts'
import type { Actor, AuditRecord, IdentityStore, KeyRecord } from './store.ts'

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
}

const unrecorded: Call = {
  key: undefined,
  actor: { who: 'anyone', from: '' },
  requireJobs() {},
  countJobs() {},
  describe() {},
  isRecorded() {},
  ended() {},
}
/** Where nobody is asked, nothing is counted, and nothing is remembered. */
export const everybody: Callers = { asks: false, admit: () => unrecorded }

export function createCallers(gate: Gate, store: IdentityStore, quotas: Quotas): Callers {
  function outcomeOf(status: number): AuditRecord['outcome'] {
    return status < 400 ? 'ok' : status < 500 ? 'refused' : 'failed'
  }

  function callOf(request: IncomingMessage, key: KeyRecord | undefined): Call {
    const from = request.socket.remoteAddress ?? ''
    const path = (request.url ?? '/').split('?', 1)[0]!
    const actor = { who: key ? `key:${key.name}/${key.id}` : 'anyone', from }
    let line = { action: `${request.method} ${path}`, subject: path, detail: {} as Readonly<Record<string, unknown>> }
    let recorded = request.method === 'GET' || request.method === 'HEAD'
    return {
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
      ended(status) {
        if (recorded) return
        recorded = true
        store.record(actor, { ...line, outcome: outcomeOf(status), detail: { ...line.detail, status } })
      },
    }
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
