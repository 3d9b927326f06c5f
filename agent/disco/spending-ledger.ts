import type { Logger } from '../../core/base/logger.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import {
  laterTime,
  nothingSpent,
  type Spending,
  type SpendingClocks,
  type SpendingTime,
  SpendingWindow,
  sumOf,
} from '../../core/policy/disco/spending.ts'
import { damaged, isCorruption } from '../../core/store/damage.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import { openReplaceable } from '../../core/store/open-replaceable.ts'
import { type Spender, spenders } from './budget.ts'

/** What tokens are counted for: what made them, and the requests (prompt tokens only). */
export type Account = Spender | 'requests'

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

/** Expected spending of an answer in progress. */
export interface Reservation {
  readonly spending: Spending
  /** The answer costs more than was expected. */
  raise(spending: Spending): void
  /** Replaces it by what was spent. Further calls do nothing. */
  settle(spent: Spending): void
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
 * What was spent and is reserved, in a sliding window, on disk. Reservations that a killed agent leaves behind count as spent.
 * If the disk fails, spending is known until the agent ends: an answer must not fail for it.
 */
export class SpendingLedger {
  readonly #options: SpendingLedgerOptions
  readonly #window: SpendingWindow<Account>
  readonly #reserved = new Map<Account, Set<{ spending: Spending }>>()
  readonly #statements
  #time: SpendingTime

  constructor(options: SpendingLedgerOptions) {
    const { store, windowMs, clocks } = options
    store.exec(clocksTable)
    this.#options = options
    this.#window = new SpendingWindow(windowMs)
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
    this.#load()
  }

  /** In the window, reservations not counted. */
  spent(account: Account): Spending {
    return this.#window.total(account, this.#now())
  }

  /** By answers in progress. */
  reserved(account: Account): Spending {
    return [...(this.#reserved.get(account) ?? [])].reduce((sum, { spending }) => sumOf(sum, spending), nothingSpent)
  }

  /** Time until at most `max` of a figure has been spent in the window, if nothing else is. @param max ≥ 0 */
  msUntil(account: Account, figure: keyof Spending, max: number): number {
    return this.#window.msUntil(account, figure, max, this.#now())
  }

  add(account: Account, spending: Spending): void {
    this.#commit((atMs) => this.#statements.add.run(...valuesOf(atMs, account, spending)))
    this.#window.add(account, spending, this.#now())
  }

  reserve(account: Account, spending: Spending): Reservation {
    const reserved = this.#reserved.get(account) ?? new Set()
    this.#reserved.set(account, reserved)
    const own = { spending }
    reserved.add(own)
    let id: number | bigint | undefined
    this.#commit((atMs) => {
      id = this.#statements.reserve.run(...valuesOf(atMs, account, spending)).lastInsertRowid
    })
    return {
      get spending() {
        return own.spending
      },
      raise: (raised) => {
        own.spending = raised
        this.#commit((atMs) => {
          if (id !== undefined) this.#statements.raise.run(...valuesOf(atMs, account, raised), id)
        })
      },
      settle: (spent) => {
        if (!reserved.delete(own)) return
        this.#commit((atMs) => {
          if (id !== undefined) this.#statements.free.run(id)
          this.#statements.add.run(...valuesOf(atMs, account, spent))
        })
        this.#window.add(account, spent, this.#now())
      },
    }
  }

  #load(): void {
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
    for (const row of store.prepare<[], Row>(`SELECT ${columns} FROM spending ORDER BY at_ms`).all())
      if (accounts.includes(row.account)) this.#window.add(row.account, spendingOf(row), row.at_ms)
  }

  #now(): number {
    this.#time = laterTime(this.#time, this.#options.clocks())
    return this.#time.ms
  }

  /** @param write gets the start of the present bucket */
  #commit(write: (atMs: number) => unknown): void {
    const { store, logger } = this.#options
    const nowMs = this.#now()
    tryOrLog(logger, 'spending not stored', () => {
      store
        .transaction(() => {
          write(this.#window.bucketAt(nowMs))
          this.#statements.forget.run(this.#window.forgottenAt(nowMs))
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

const valuesOf = (atMs: number, account: Account, { promptTokens, autoPromptTokens, tokens, dollars, joules }: Spending) =>
  [atMs, account, promptTokens, autoPromptTokens, tokens, dollars, joules] as const

const spendingOf = ({ prompt_tokens, auto_prompt_tokens, tokens, dollars, joules }: Row): Spending => ({
  promptTokens: prompt_tokens,
  autoPromptTokens: auto_prompt_tokens,
  tokens,
  dollars,
  joules,
})
