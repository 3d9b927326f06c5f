import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { AuditEntry } from './audit-log.ts'
import type { IdentityStore } from './store.ts'

/** Refusals wait this long for equal ones, so that a flood of them does not cost a commit each. */
const refusalDelayMs = 100
/** Refusals in memory that differ; one more writes them. */
const maxRefusals = 1_000

/** An entry of a request, whose caller has an address. */
export interface RequestEntry extends AuditEntry {
  readonly actor: Exclude<AuditEntry['actor'], string>
}

/** Writes the entries of requests in batches: a commit per request would cost a busy bridge as much as its jobs do. */
export interface AuditWriter {
  add(entry: RequestEntry): void
  /** Writes what waits. */
  close(): void
}

export function createAuditWriter(store: Pick<IdentityStore, 'record'>, clock: Clock, logger: Logger): AuditWriter {
  const closing = new AbortController()
  let entries: AuditEntry[] = []
  const refusals = new Map<string, AuditEntry & { count: number }>()

  function write(due: readonly AuditEntry[]): void {
    if (due.length > 0) tryOrLog(logger, 'audit log not written', () => store.record(due), { entries: due.length })
  }
  function writeEntries(): void {
    const due = entries
    entries = []
    write(due)
  }
  function writeRefusals(): void {
    const due = [...refusals.values()]
    refusals.clear()
    write(due)
  }

  function addRefusal(entry: RequestEntry): void {
    const { actor, action } = entry
    const same = JSON.stringify([actor.who, actor.from, action])
    const known = refusals.get(same)
    if (known) {
      known.count += 1
      return
    }
    if (refusals.size >= maxRefusals) writeRefusals()
    if (refusals.size === 0) clock.sleep(refusalDelayMs, closing.signal).then(writeRefusals, () => {})
    refusals.set(same, { ...entry, at: nowIso(), count: 1 })
  }

  return {
    add(entry) {
      if (entry.outcome === 'refused') addRefusal(entry)
      else if (entries.push(entry) === 1) setImmediate(writeEntries)
    },
    close() {
      closing.abort()
      writeEntries()
      writeRefusals()
    },
  }
}
