import { nowIso } from '../../core/base/clock.ts'
import type { AuditLine } from '../../core/protocol/http/admin.ts'
import type { Store } from '../../core/store/open-database.ts'

/** About 200 MB; then the oldest lines are deleted. */
export const defaultMaxAuditLines = 1_000_000

/** Who acts: a user of the bridge's own machine, or a client at an address. */
export type Actor = string | { readonly who: string; readonly from: string }

export interface AuditRecord extends Readonly<Omit<AuditLine, 'detail'>> {
  /** JSON. */
  readonly detail: string
}

export interface AuditEntry extends Pick<AuditRecord, 'action' | 'subject' | 'outcome'> {
  readonly actor: Actor
  /** Must be expressible in JSON. */
  readonly detail: unknown
}

/** Writes one line in the caller's transaction. */
export type AddAuditLine = (entry: AuditEntry) => void

/** Writes the line of a change that succeeded. */
export type AuditChange = (actor: Actor, action: string, subject: string, detail?: unknown) => void

export function openAuditLog(store: Store, maxLines: number) {
  const insert = store.prepare(`INSERT INTO audit
    (at, actor, origin, action, subject, outcome, detail) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const latest = store.prepare<[number], AuditRecord>(
    'SELECT at, actor, origin AS "from", action, subject, outcome, detail FROM audit ORDER BY id DESC LIMIT ?',
  )
  const deleteOldest = store.prepare(`DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ${maxLines}`)
  const add: AddAuditLine = ({ actor, action, subject, outcome, detail }) => {
    const { who, from } = typeof actor === 'string' ? { who: actor, from: null } : actor
    insert.run(nowIso(), who, from, action, subject, outcome, JSON.stringify(detail))
  }
  const record = store.transaction((entries: readonly AuditEntry[]) => {
    entries.forEach(add)
    deleteOldest.run()
  })
  const addChange: AuditChange = (actor, action, subject, detail = {}) => add({ actor, action, subject, outcome: 'ok', detail })
  return {
    add,
    addChange,
    /** In one transaction. */
    record: (entries: readonly AuditEntry[]) => record.immediate(entries),
    /** Latest first. */
    audit: (limit: number) => latest.all(limit),
  }
}
