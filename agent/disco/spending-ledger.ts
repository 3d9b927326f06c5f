import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { damaged, isCorruption } from '../../core/kit/store/damage.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { openReplaceable } from '../../core/kit/store/open-replaceable.ts'
import { type AccountSpending, laterTime, type SpendingClocks, type SpendingTime } from '../../core/policy/disco/spending.ts'
import { type Account, type BookChange, SpendingBook, type SpentRow, spenders } from '../../core/policy/disco/spending-book.ts'

const columns = 'at_ms, account, prompt_tokens, auto_prompt_tokens, tokens, dollars, joules'
const types = `at_ms INTEGER NOT NULL,
  account TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  auto_prompt_tokens INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  dollars REAL NOT NULL,
  joules REAL NOT NULL`

/** A migration: what was spent, by the start of its bucket; what answers in progress have reserved; and the time. */
export const spendingTables = `CREATE TABLE spending (
  ${types},
  PRIMARY KEY (at_ms, account)
) STRICT, WITHOUT ROWID;
CREATE TABLE reserved (
  id INTEGER PRIMARY KEY,
  ${types}
) STRICT;
CREATE TABLE spending_time (only INTEGER PRIMARY KEY CHECK (only = 1), ms INTEGER NOT NULL, wall_ms INTEGER) STRICT;`

/**
 * What the time was counted by. No migration: a release before must open the database after a trial of this one has failed. `ms` is
 * that of `spending_time`, unless such a release has counted on.
 */
const clocksTable = `CREATE TABLE IF NOT EXISTS spending_clocks (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  ms INTEGER NOT NULL,
  boot TEXT NOT NULL,
  up_ms REAL NOT NULL,
  is_off_counted INTEGER NOT NULL
) STRICT`

/**
 * Reservations are on disk before a request is sent: a power cut forgets nothing.
 * @param isBounded there is a budget, which a damaged ledger must not begin anew
 * @throws BrimError STORE_FAILED, STORE_DAMAGED
 */
export function openSpendingDatabase(path: string, isBounded: boolean, logger: Logger): Store {
  const read = (store: Store) => store.prepare('SELECT * FROM spending').all()
  if (!isBounded) return openReplaceable(path, [spendingTables], read, logger, 'FULL')
  const store = openDatabase(path, [spendingTables])
  try {
    read(store)
    return store
  } catch (cause) {
    store.close()
    throw isCorruption(cause) ? damaged(path, 'its content cannot be read', cause) : cause
  }
}

export interface SpendingLedgerOptions {
  /** Has `spendingTables`. */
  readonly store: Store
  readonly windowMs: number
  readonly clocks: () => SpendingClocks
  readonly logger: Logger
}

interface TimeRow {
  readonly ms: number
  readonly wallMs: number | null
}

interface ClocksRow {
  readonly boot: string
  readonly upMs: number
  readonly isOffCounted: number
}

interface Row {
  readonly at_ms: number
  readonly account: Account
  readonly prompt_tokens: number
  readonly auto_prompt_tokens: number
  readonly tokens: number
  readonly dollars: number
  readonly joules: number
}

/**
 * The book of what was spent and is reserved, on disk. Reservations that a killed agent leaves behind count as spent. If the disk
 * fails, spending is known until the agent ends: an answer must not fail for it.
 */
export class SpendingLedger {
  readonly book: SpendingBook
  /** What was in it at the start. */
  readonly spent: readonly SpentRow[]
  readonly #options: SpendingLedgerOptions
  /** Rows of the present reservations, by their ids in the book. */
  readonly #rows = new Map<number, number | bigint>()
  readonly #statements
  #time: SpendingTime

  constructor(options: SpendingLedgerOptions) {
    const { store, windowMs, clocks } = options
    store.exec(clocksTable)
    this.#options = options
    this.book = new SpendingBook(windowMs)
    this.#statements = {
      add: store.prepare(
        `INSERT INTO spending (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
          prompt_tokens = prompt_tokens + excluded.prompt_tokens, auto_prompt_tokens = auto_prompt_tokens + excluded.auto_prompt_tokens,
          tokens = tokens + excluded.tokens, dollars = dollars + excluded.dollars, joules = joules + excluded.joules`,
      ),
      reserve: store.prepare(`INSERT INTO reserved (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`),
      raise: store.prepare(`UPDATE reserved SET (${columns}) = (?, ?, ?, ?, ?, ?, ?) WHERE id = ?`),
      free: store.prepare<[number | bigint]>('DELETE FROM reserved WHERE id = ?'),
      forget: store.prepare<[number]>('DELETE FROM spending WHERE at_ms <= ?'),
      setTime: store.prepare('INSERT OR REPLACE INTO spending_time (only, ms, wall_ms) VALUES (1, ?, ?)'),
      setClocks: store.prepare(
        'INSERT OR REPLACE INTO spending_clocks (only, ms, boot, up_ms, is_off_counted) VALUES (1, ?, ?, ?, ?)',
      ),
    }
    this.#time = laterTime(storedTime(store), clocks())
    this.spent = this.#load()
    for (const { account, spending, atMs } of this.spent) this.book.window.add(account, spending, atMs)
  }

  /** The book's time. */
  get nowMs(): number {
    this.#time = laterTime(this.#time, this.#options.clocks())
    return this.#time.ms
  }

  /** Stores what has changed in the book. */
  write(change: BookChange): void {
    const { kind, account, spending } = change
    this.#commit((atMs) => {
      const values = valuesOf(atMs, account, spending)
      if (kind === 'add') this.#statements.add.run(...values)
      else if (kind === 'reserve') this.#rows.set(change.id, this.#statements.reserve.run(...values).lastInsertRowid)
      else {
        const row = this.#rows.get(change.id)
        if (kind === 'raise') {
          if (row !== undefined) this.#statements.raise.run(...values, row)
          return
        }
        this.#rows.delete(change.id)
        if (row !== undefined) this.#statements.free.run(row)
        this.#statements.add.run(...values)
      }
    })
  }

  #load(): SpentRow[] {
    const { store, logger } = this.#options
    const left = store.prepare<[], Row>(`SELECT ${columns} FROM reserved ORDER BY id`).all()
    if (left.length > 0) {
      logger.warn({ answers: left.length }, 'the agent ended during answers: what they had reserved counts as spent')
      this.#commit(() => {
        for (const row of left) this.#statements.add.run(...valuesOf(row.at_ms, row.account, spendingOf(row)))
        store.exec('DELETE FROM reserved')
      })
    }
    const accounts: readonly string[] = [...spenders, 'requests'] satisfies Account[]
    // A later release may know more accounts.
    const rows = store.prepare<[], Row>(`SELECT ${columns} FROM spending ORDER BY at_ms`).all()
    return rows
      .filter(({ account }) => accounts.includes(account))
      .map((row) => ({ atMs: row.at_ms, account: row.account, spending: spendingOf(row) }))
  }

  /** @param write gets the start of the present bucket */
  #commit(write: (atMs: number) => unknown): void {
    const { store, logger } = this.#options
    const { nowMs } = this
    tryOrLog(logger, 'spending not stored', () => {
      store
        .transaction(() => {
          write(this.book.window.bucketAt(nowMs))
          this.#statements.forget.run(this.book.window.forgottenAt(nowMs))
          const { wallMs, boot, upMs, isOffCounted } = this.#time
          this.#statements.setTime.run(Math.round(nowMs), wallMs === undefined ? null : Math.round(wallMs))
          this.#statements.setClocks.run(Math.round(nowMs), boot, upMs, Number(isOffCounted))
        })
        .immediate()
    })
  }
}

/** The latest time that was stored. */
function storedTime(store: Store): SpendingTime {
  const time = store.prepare<[], TimeRow>('SELECT ms, wall_ms AS wallMs FROM spending_time').get() ?? { ms: 0, wallMs: null }
  const clocks = store
    .prepare<[number], ClocksRow>('SELECT boot, up_ms AS upMs, is_off_counted AS isOffCounted FROM spending_clocks WHERE ms = ?')
    .get(time.ms) ?? { boot: '', upMs: 0, isOffCounted: 0 }
  return { ms: time.ms, wallMs: time.wallMs ?? undefined, ...clocks, isOffCounted: clocks.isOffCounted === 1 }
}

const valuesOf = (atMs: number, account: Account, { promptTokens, autoPromptTokens, tokens, dollars, joules }: AccountSpending) =>
  [atMs, account, promptTokens, autoPromptTokens, tokens, dollars, joules] as const

const spendingOf = ({ prompt_tokens, auto_prompt_tokens, tokens, dollars, joules }: Row): AccountSpending => ({
  promptTokens: prompt_tokens,
  autoPromptTokens: auto_prompt_tokens,
  tokens,
  dollars,
  joules,
})
