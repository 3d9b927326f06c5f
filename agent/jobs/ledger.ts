import type { JobEvent, ToJobDevice } from '../../core/protocol/jobs.ts'
import type { Store } from '../../core/store/open-database.ts'

/**
 * A migration: what this device was given, and how it ended. `link` is the broker that it came from, where the answer
 * goes; `finished` counts how often the work was done to its end.
 */
export const ledgerTable = `CREATE TABLE ledger (
  n INTEGER PRIMARY KEY,
  link TEXT NOT NULL,
  bridge TEXT NOT NULL,
  job TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  kind TEXT NOT NULL,
  input TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done')),
  last_event TEXT,
  acknowledged INTEGER NOT NULL DEFAULT 0,
  finished INTEGER NOT NULL DEFAULT 0,
  UNIQUE (bridge, job)
) STRICT;
CREATE INDEX ledger_open ON ledger (state, n) WHERE state <> 'done' OR acknowledged = 0;`

type Run = Extract<ToJobDevice, { type: 'run' }>
/** What ends an attempt. */
export type FinalEvent = Extract<JobEvent, { type: 'succeeded' | 'failed' | 'canceled' }>

export interface LedgerEntry {
  readonly link: string
  readonly bridge: string
  readonly job: string
  readonly attempt: number
  readonly kind: string
  readonly input: unknown
  readonly state: 'waiting' | 'running' | 'done'
  readonly lastEvent: FinalEvent | null
}

interface Row extends Omit<LedgerEntry, 'input' | 'lastEvent'> {
  readonly n: number
  readonly input: string
  readonly last_event: string | null
}

/**
 * Finished and acknowledged jobs that are remembered. A repeat of an older one would be begun again, and stopped: the bridge
 * has ended that job or forgotten it, and recalls whoever begins it.
 */
const remembered = 1_000

/** The device's durable memory of its jobs: what it has been given survives it, what it has done is not done again. */
export class JobLedger {
  readonly #store: Store
  readonly #statements

  /** @param store must have had `ledgerTable` */
  constructor(store: Store) {
    this.#store = store
    this.#statements = {
      find: store.prepare<[string, string], Row>('SELECT * FROM ledger WHERE bridge = ? AND job = ?'),
      insert: store.prepare(
        "INSERT INTO ledger (link, bridge, job, attempt, kind, input, state) VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
      ),
      again: store.prepare(
        "UPDATE ledger SET link = ?, attempt = ?, input = ?, state = 'waiting', last_event = NULL, acknowledged = 0 WHERE n = ?",
      ),
      finish: store.prepare(
        `UPDATE ledger SET state = 'done', last_event = ?, acknowledged = 0, finished = finished + ?
         WHERE bridge = ? AND job = ? AND attempt = ? AND state <> 'done'`,
      ),
      resend: store.prepare('UPDATE ledger SET link = ?, attempt = ?, last_event = ?, acknowledged = 0 WHERE n = ?'),
      begin: store.prepare("UPDATE ledger SET state = 'running' WHERE n = ?"),
      // What was asked is needed no longer: should it be tried again, it comes again.
      acknowledge: store.prepare("UPDATE ledger SET acknowledged = 1, input = 'null' WHERE n = ? AND state = 'done'"),
      forget: store.prepare(
        `DELETE FROM ledger WHERE state = 'done' AND acknowledged = 1
         AND n <= (SELECT max(n) FROM ledger) - ${remembered}`,
      ),
      next: store.prepare<[], Row>(
        "SELECT * FROM ledger WHERE (state <> 'done' OR acknowledged = 0) AND state = 'waiting' ORDER BY n LIMIT 1",
      ),
      waiting: store
        .prepare<[], number>("SELECT count(*) FROM ledger WHERE (state <> 'done' OR acknowledged = 0) AND state = 'waiting'")
        .pluck(),
      running: store
        .prepare<[], number>("SELECT count(*) FROM ledger WHERE (state <> 'done' OR acknowledged = 0) AND state = 'running'")
        .pluck(),
      open: store.prepare<[], Row>("SELECT * FROM ledger WHERE state <> 'done' OR acknowledged = 0 ORDER BY n"),
    }
  }

  /**
   * On disk when it returns.
   * @returns 'new': to be done; 'known': it is at hand or at work; 'done': its last event is to be said again
   */
  add(link: string, { bridge, job, attempt, kind, input }: Run): 'new' | 'known' | 'done' {
    const { find, insert, again, resend } = this.#statements
    return this.#store
      .transaction(() => {
        const row = find.get(bridge, job)
        if (!row) {
          insert.run(link, bridge, job, attempt, kind, JSON.stringify(input))
          return 'new'
        }
        const last = entryOf(row).lastEvent
        const isNewer = attempt > row.attempt
        // What was done is not done again, whichever attempt asks; what failed is.
        if (last?.type === 'succeeded' || (last && !isNewer)) {
          const told: FinalEvent = isNewer ? { ...last, attempt, n: 1 } : last
          resend.run(link, Math.max(attempt, row.attempt), JSON.stringify(told), row.n)
          return 'done'
        }
        if (!isNewer) return 'known'
        again.run(link, attempt, JSON.stringify(input), row.n)
        return 'new'
      })
      .immediate()
  }

  find(bridge: string, job: string): LedgerEntry | undefined {
    const row = this.#statements.find.get(bridge, job)
    return row && entryOf(row)
  }

  /** The oldest that waits; from now on it is at work. */
  begin(): LedgerEntry | undefined {
    const { next, begin } = this.#statements
    return this.#store
      .transaction(() => {
        const row = next.get()
        if (!row) return undefined
        begin.run(row.n)
        return { ...entryOf(row), state: 'running' as const }
      })
      .immediate()
  }

  /**
   * The attempt is over; to be said until it is acknowledged.
   * @returns false where it was over before, or a newer one has its place: then nothing has changed
   */
  finish(event: FinalEvent): boolean {
    const { type, bridge, job, attempt } = event
    return this.#statements.finish.run(JSON.stringify(event), type === 'succeeded' ? 1 : 0, bridge, job, attempt).changes > 0
  }

  /** The bridge has stored this attempt's last event. */
  acknowledged(bridge: string, job: string, attempt: number, n: number): void {
    const row = this.#statements.find.get(bridge, job)
    const last = row && entryOf(row).lastEvent
    if (!row || !last || last.attempt !== attempt || n < last.n) return
    this.#store
      .transaction(() => {
        this.#statements.acknowledge.run(row.n)
        this.#statements.forget.run()
      })
      .immediate()
  }

  /** How many are at hand. */
  get counts(): { waiting: number; running: number } {
    const { waiting, running } = this.#statements
    return { waiting: waiting.get() ?? 0, running: running.get() ?? 0 }
  }

  /** Whatever is not done, or whose end the bridge has not acknowledged. */
  open(): LedgerEntry[] {
    return this.#statements.open.all().map(entryOf)
  }
}

function entryOf({ n: _, input, last_event, ...row }: Row): LedgerEntry {
  return {
    ...row,
    input: JSON.parse(input) as unknown,
    lastEvent: last_event === null ? null : (JSON.parse(last_event) as FinalEvent),
  }
}
