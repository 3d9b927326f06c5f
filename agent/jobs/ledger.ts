import { nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { isStorageFull, requireSpace, requireWritable } from '../../core/kit/store/storage-full.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { Lane } from '../../core/policy/jobs/assign-jobs.ts'
import type { ExpandedSentence } from '../../core/wire/protocol/expansion.ts'
import { type JobEvent, maintenanceKinds, type ToJobDevice } from '../../core/wire/protocol/jobs.ts'

/**
 * A migration: the device's jobs and their outcomes. `link` is the address of the broker that delivered the job and
 * takes its events. `finished` counts how often the job succeeded.
 */
const ledgerTable = `CREATE TABLE ledger (
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

/** A migration: sentences of expansions that have not ended, as JSON. */
const finishedSentenceTable = `CREATE TABLE finished_sentence (
  entry INTEGER NOT NULL REFERENCES ledger (n) ON DELETE CASCADE,
  sentence TEXT NOT NULL
) STRICT;
CREATE INDEX finished_sentence_entry ON finished_sentence (entry);`

export const ledgerMigrations = [ledgerTable, finishedSentenceTable]

type Run = Extract<ToJobDevice, { type: 'run' }>
/** The event that ends an attempt. */
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
 * Acknowledged jobs that the ledger retains. A late repeat of an older job starts it again; the bridge then cancels the
 * attempt, because the job has ended there.
 */
const maxRetained = 1_000
/** Jobs whose sentences are retained for another attempt, in case it comes to this device. */
const maxUnfinished = 100

const maintenance = [...maintenanceKinds].map((kind) => `'${kind}'`).join(', ')
/** SQL conditions. */
const isOf: Readonly<Record<Lane, string>> = { work: `kind NOT IN (${maintenance})`, maintenance: `kind IN (${maintenance})` }

/** The device's durable record of its jobs: accepted jobs survive a restart, finished jobs do not run again. */
export class JobLedger {
  readonly #store: Store
  readonly #statements

  /**
   * @param store has `ledgerMigrations`
   * @param quickStore the same database, whose commits need not be on disk when they return
   */
  constructor(store: Store, quickStore: Store = store) {
    // The condition of the partial index.
    const isOpen = "(state <> 'done' OR acknowledged = 0)"
    const count = (state: string) =>
      store.prepare<[], number>(`SELECT count(*) FROM ledger WHERE ${isOpen} AND state = '${state}'`).pluck()
    const next = (lane: Lane) =>
      store.prepare<[], Row>(`SELECT * FROM ledger WHERE ${isOpen} AND state = 'waiting' AND ${isOf[lane]} ORDER BY n LIMIT 1`)
    this.#store = store
    this.#statements = {
      find: store.prepare<[string, string], Row>('SELECT * FROM ledger WHERE bridge = ? AND job = ?'),
      insert: store.prepare(
        "INSERT INTO ledger (link, bridge, job, attempt, kind, input, state) VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
      ),
      restart: store.prepare(
        "UPDATE ledger SET link = ?, attempt = ?, input = ?, state = 'waiting', last_event = NULL, acknowledged = 0 WHERE n = ?",
      ),
      finish: store.prepare(
        `UPDATE ledger SET state = 'done', last_event = ?, acknowledged = 0, finished = finished + ?
         WHERE bridge = ? AND job = ? AND attempt = ? AND state <> 'done'`,
      ),
      resend: store.prepare('UPDATE ledger SET link = ?, attempt = ?, last_event = ?, acknowledged = 0 WHERE n = ?'),
      begin: store.prepare("UPDATE ledger SET state = 'running' WHERE n = ?"),
      // Deletes the input: a new attempt brings it again.
      acknowledge: store.prepare("UPDATE ledger SET acknowledged = 1, input = 'null' WHERE n = ? AND state = 'done'"),
      deleteOld: store.prepare(
        `DELETE FROM ledger WHERE state = 'done' AND acknowledged = 1 AND n <= (SELECT max(n) FROM ledger) - ${maxRetained}`,
      ),
      addSentence: quickStore.prepare(
        'INSERT INTO finished_sentence (entry, sentence) SELECT n, ? FROM ledger WHERE bridge = ? AND job = ?',
      ),
      sentences: store
        .prepare<[string, string], string>(
          'SELECT sentence FROM finished_sentence WHERE entry = (SELECT n FROM ledger WHERE bridge = ? AND job = ?)',
        )
        .pluck(),
      deleteSentences: store.prepare(
        'DELETE FROM finished_sentence WHERE entry = (SELECT n FROM ledger WHERE bridge = ? AND job = ?)',
      ),
      deleteOldSentences: store.prepare(
        `DELETE FROM finished_sentence WHERE entry <= (SELECT max(n) FROM ledger) - ${maxUnfinished}`,
      ),
      setAside: store.prepare("UPDATE ledger SET state = 'done', input = 'null', last_event = ?, acknowledged = 0 WHERE n = ?"),
      next: { work: next('work'), maintenance: next('maintenance') },
      waiting: count('waiting'),
      running: count('running'),
      open: store.prepare<[], Row>(`SELECT * FROM ledger WHERE ${isOpen} ORDER BY n`),
    }
    this.#setDamagedAside()
  }

  /** A damaged job ends as a failure, which the agent reports to its bridge: the others go on. On a full disk, the next start does so. */
  #setDamagedAside(): void {
    const { open, setAside } = this.#statements
    try {
      for (const row of open.all()) if (isDamaged(row)) setAside.run(JSON.stringify(damagedEvent(row)), row.n)
    } catch (error) {
      if (!isStorageFull(error)) throw error
    }
  }

  /**
   * Adds a job, or a newer attempt of a known one; on disk on return.
   * @returns 'new': the attempt must run; 'known': it waits or runs; 'done': its final event must be sent again
   */
  add(link: string, { bridge, job, attempt, kind, input }: Run): 'new' | 'known' | 'done' {
    const { find, insert, restart, resend } = this.#statements
    return this.#store
      .transaction(() => {
        const row = find.get(bridge, job)
        if (!row) {
          insert.run(link, bridge, job, attempt, kind, JSON.stringify(input))
          return 'new'
        }
        const last = entryOf(row).lastEvent
        const isNewer = attempt > row.attempt
        // A job that succeeded never runs again; one that failed runs again for a newer attempt.
        if (last?.type === 'succeeded' || (last && !isNewer)) {
          const event: FinalEvent = isNewer ? { ...last, attempt, n: 1 } : last
          resend.run(link, Math.max(attempt, row.attempt), JSON.stringify(event), row.n)
          return 'done'
        }
        if (!isNewer) return 'known'
        restart.run(link, attempt, JSON.stringify(input), row.n)
        return 'new'
      })
      .immediate()
  }

  /** @throws if a job could not be stored now */
  requireWritable(): void {
    requireWritable(this.#store)
  }

  /** @throws where the disk is full */
  requireSpace(): void {
    requireSpace(this.#store)
  }

  find(bridge: string, job: string): LedgerEntry | undefined {
    const row = this.#statements.find.get(bridge, job)
    return row && entryOf(row)
  }

  /** Marks the oldest waiting job of a lane as running. */
  begin(lane: Lane): LedgerEntry | undefined {
    const { next, begin } = this.#statements
    return this.#store
      .transaction(() => {
        const row = next[lane].get()
        if (!row) return undefined
        begin.run(row.n)
        return { ...entryOf(row), state: 'running' as const }
      })
      .immediate()
  }

  /**
   * Ends an attempt; its event is sent until it is acknowledged.
   * @returns false if the attempt has ended or a newer one replaced it; nothing changes then
   */
  finish(event: FinalEvent): boolean {
    const { type, bridge, job, attempt } = event
    const { finish, deleteSentences } = this.#statements
    return this.#store
      .transaction(() => {
        const hasEnded = finish.run(JSON.stringify(event), type === 'succeeded' ? 1 : 0, bridge, job, attempt).changes > 0
        if (hasEnded && type === 'succeeded') deleteSentences.run(bridge, job)
        return hasEnded
      })
      .immediate()
  }

  /** Stores a finished sentence of a job, which further attempts on this device need not repeat. It survives the agent's death. */
  addSentence({ bridge, job }: Pick<LedgerEntry, 'bridge' | 'job'>, sentence: ExpandedSentence): void {
    this.#statements.addSentence.run(JSON.stringify(sentence), bridge, job)
  }

  /** Those that earlier attempts of a job have finished. */
  sentencesOf({ bridge, job }: Pick<LedgerEntry, 'bridge' | 'job'>): ExpandedSentence[] {
    const sentences = this.#statements.sentences.all(bridge, job).map((stored) => storedJson(stored))
    return sentences.filter((sentence) => sentence !== undefined) as ExpandedSentence[]
  }

  /** The bridge has stored the attempt's events up to `n`. */
  acknowledge(bridge: string, job: string, attempt: number, n: number): void {
    const row = this.#statements.find.get(bridge, job)
    const last = row && entryOf(row).lastEvent
    if (!row || !last || last.attempt !== attempt || n < last.n) return
    this.#store
      .transaction(() => {
        this.#statements.acknowledge.run(row.n)
        this.#statements.deleteOldSentences.run()
        this.#statements.deleteOld.run()
      })
      .immediate()
  }

  get counts(): { waiting: number; running: number } {
    const { waiting, running } = this.#statements
    return { waiting: waiting.get() ?? 0, running: running.get() ?? 0 }
  }

  /** Jobs that have not ended, or whose final event is not acknowledged; the oldest first. */
  open(): LedgerEntry[] {
    return this.#statements.open.all().map(entryOf)
  }
}

function entryOf(stored: Row): LedgerEntry {
  const { n: _, input, last_event, ...row } = stored
  if (isDamaged(stored)) return { ...row, state: 'done', input: null, lastEvent: damagedEvent(stored) }
  return { ...row, input: storedJson(input), lastEvent: storedJson(last_event ?? 'null') as FinalEvent | null }
}

const isDamaged = ({ input, last_event }: Row): boolean =>
  storedJson(input) === undefined || storedJson(last_event ?? 'null') === undefined

const damagedEvent = ({ bridge, job, attempt }: Row): FinalEvent => ({
  v: 1,
  bridge,
  job,
  attempt,
  n: 1,
  at: nowIso(),
  type: 'failed',
  failure: 'failed',
  error: { code: 'STORE_DAMAGED', message: 'what the device had stored of the job is damaged' },
})
