import { nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import type { AuditLine } from '../../core/wire/protocol/http/admin.ts'
import type { BridgeConfig } from '../config.ts'

/** Max lines of each table; then the bridge deletes its oldest. */
export type AuditLimits = Pick<BridgeConfig['limits'], 'auditChanges' | 'auditRefusals' | 'auditRequests'>

/** The author of a change: a user of the bridge's own machine, or a client at an address. */
export type Actor = string | { readonly who: string; readonly from: string }

export interface AuditRecord extends Readonly<Omit<AuditLine, 'detail'>> {
  /** JSON. */
  readonly detail: string
}

export interface AuditEntry extends Pick<AuditRecord, 'action' | 'subject' | 'outcome'> {
  readonly actor: Actor
  /** Must be expressible in JSON. */
  readonly detail: unknown
  /** Default: now. */
  readonly at?: string
  /** Equal entries that this one stands for; default: 1. */
  readonly count?: number
}

/** Writes one line in the caller's transaction. */
export type AddAuditLine = (entry: AuditEntry) => void

/** Writes the line of a change that succeeded. */
export type AuditChange = (actor: Actor, action: string, subject: string, detail?: unknown) => void

/** A change of one row and its audit line, in one transaction. @returns whether there was such a row */
export function auditedChange(
  store: Store,
  audit: AuditChange,
  action: string,
  change: (subject: string) => { readonly changes: number },
): (actor: Actor, subject: string) => boolean {
  const run = store.transaction((actor: Actor, subject: string) => {
    const found = change(subject).changes > 0
    if (found) audit(actor, action, subject)
    return found
  })
  return (actor, subject) => run.immediate(actor, subject)
}

/** Lines of each table that have been appended to the audit file, by their highest id. */
export interface AuditCursor {
  readonly changes: number
  readonly requests: number
  readonly refusals: number
}

const maxSubjectChars = 200
/** Longer than refusals wait for equal ones in createAuditWriter. */
const settleMs = 1_000
const maxDetailChars = 2_000
const columns = 'at, actor, origin AS "from", action, subject, outcome, detail'

/**
 * Three tables with a retention each, so that no client displaces the lines of others: changes of tokens, keys and devices;
 * requests that were executed; and refusals, of which those of one caller and action within a minute are one line.
 */
export interface AuditLog extends ExportCursor {
  readonly add: AddAuditLine
  readonly addChange: AuditChange
  /** In one transaction. */
  record(entries: readonly AuditEntry[]): void
  /** Latest first. */
  audit(limit: number): AuditRecord[]
}

export function openAuditLog(store: Store, limits?: AuditLimits): AuditLog {
  const insert = (table: string) =>
    store.prepare(`INSERT INTO ${table} (at, actor, origin, action, subject, outcome, detail) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const [insertChange, insertRequest] = [insert('audit'), insert('audit_requests')]
  const countRefusal = store.prepare(`INSERT INTO audit_refusals
    (at, actor, origin, action, subject, outcome, detail, minute, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (minute, actor, origin, action) DO UPDATE SET count = count + excluded.count`)
  const latest = store.prepare<{ limit: number }, AuditRecord>(`
    SELECT * FROM (SELECT ${columns}, 1 AS count, id FROM audit ORDER BY id DESC LIMIT @limit)
    UNION ALL SELECT * FROM (SELECT ${columns}, 1 AS count, id FROM audit_requests ORDER BY id DESC LIMIT @limit)
    UNION ALL SELECT * FROM (SELECT ${columns}, count, id FROM audit_refusals ORDER BY id DESC LIMIT @limit)
    ORDER BY at DESC, id DESC LIMIT @limit`)
  const maxLines: [string, number][] = limits
    ? [
        ['audit', limits.auditChanges],
        ['audit_requests', limits.auditRequests],
        ['audit_refusals', limits.auditRefusals],
      ]
    : []
  const deleteOldest = maxLines.map(([table, max]) =>
    store.prepare(`DELETE FROM ${table} WHERE id <= (SELECT max(id) FROM ${table}) - ${max}`),
  )

  const valuesOf = ({ actor, action, subject, outcome, detail, at = nowIso() }: AuditEntry) => {
    const { who, from } = typeof actor === 'string' ? { who: actor, from: '' } : actor
    const text = JSON.stringify(detail)
    const shown = text.length <= maxDetailChars ? text : JSON.stringify({ cut: text.slice(0, maxDetailChars) })
    return [at, who, from, action, cut(subject), outcome, shown]
  }
  const add: AddAuditLine = (entry) => {
    if (entry.outcome !== 'refused') insertRequest.run(...valuesOf(entry))
    else countRefusal.run(...valuesOf(entry), minuteOf(entry.at), entry.count ?? 1)
  }
  const addChange: AuditChange = (actor, action, subject, detail = {}) =>
    void insertChange.run(...valuesOf({ actor, action, subject, outcome: 'ok', detail }))
  const prune = () => {
    for (const statement of deleteOldest) statement.run()
  }
  const record = store.transaction((entries: readonly AuditEntry[]) => {
    entries.forEach(add)
    prune()
  })
  return {
    add(entry) {
      add(entry)
      prune()
    },
    addChange,
    record: (entries) => record.immediate(entries),
    audit: (limit) => latest.all({ limit }).map(recordOf),
    ...openCursor(store),
  }
}

/** What has not yet been appended to the audit file. */
interface ExportCursor {
  /** At most `max` lines of each table, in order; a refusal once its minute has been over for a second. */
  notExported(max: number): { readonly lines: AuditRecord[]; readonly cursor: AuditCursor }
  exported(cursor: AuditCursor): void
}

function openCursor(store: Store): ExportCursor {
  type Row = AuditRecord & { readonly id: number }
  const read = store.prepare<[], AuditCursor>('SELECT changes, requests, refusals FROM audit_export')
  const write = store.prepare('UPDATE audit_export SET changes = @changes, requests = @requests, refusals = @refusals')
  const next = (table: string) =>
    store.prepare<[number, number], Row>(`SELECT ${columns}, 1 AS count, id FROM ${table} WHERE id > ? ORDER BY id LIMIT ?`)
  const [nextChanges, nextRequests] = [next('audit'), next('audit_requests')]
  // Up to the first that may still be counted up: a later line may be of an earlier minute, because refusals wait for equal ones.
  const nextRefusals = store.prepare<{ from: number; open: number; max: number }, Row>(
    `SELECT ${columns}, count, id FROM audit_refusals WHERE id > @from AND id < coalesce(
       (SELECT min(id) FROM audit_refusals WHERE id > @from AND minute BETWEEN @open AND @open + 1), 9e18)
     ORDER BY id LIMIT @max`,
  )
  return {
    notExported(max) {
      const from = read.get()!
      const changes = nextChanges.all(from.changes, max)
      const requests = nextRequests.all(from.requests, max)
      const open = minuteOf(new Date(Date.now() - settleMs).toISOString())
      const refusals = nextRefusals.all({ from: from.refusals, open, max })
      const lines = [...changes, ...requests, ...refusals].sort((one, other) => Date.parse(one.at) - Date.parse(other.at))
      const cursor = {
        changes: changes.at(-1)?.id ?? from.changes,
        requests: requests.at(-1)?.id ?? from.requests,
        refusals: refusals.at(-1)?.id ?? from.refusals,
      }
      return { lines: lines.map(recordOf), cursor }
    },
    exported: (cursor) => void write.run(cursor),
  }
}

/** Counts from 1970 (UTC). */
const minuteOf = (at = nowIso()) => Math.floor(Date.parse(at) / 60_000)

/** Without an address, the line is of the bridge's own machine. */
const recordOf = ({ at, actor, from, action, subject, outcome, detail, count }: AuditRecord): AuditRecord => ({
  at,
  actor,
  from: from || null,
  action,
  subject,
  outcome,
  detail,
  count,
})

const cut = (text: string) => (text.length <= maxSubjectChars ? text : `${text.slice(0, maxSubjectChars - 1)}…`)
