import { type HandlersOf, handleKind, type Machine, type OfKind, PendingActions } from '../machine.ts'
import type { SideWork } from './controller-plan.ts'
import { costOf } from './costs.ts'
import { defaultMaxTokens, type RunAccount, type RunRequest, SideAccount, type WantedSide } from './side-account.ts'
import { type AccountSpending, nothingSpent, sumOf } from './spending.ts'
import type { BookChange, Spender, SpendingBook } from './spending-book.ts'
import type { Side, TokenCosts } from './state.ts'

export interface Cap {
  readonly figure: 'dollars' | 'joules'
  readonly max: number
}

export interface BudgetSettings {
  readonly caps: Readonly<Partial<Record<Spender, Cap>>>
  /** Whether an answer does without a side that has spent what it may. */
  readonly leavesOut: boolean
}

/** Of a token now; undefined: unknown, which counts as 0. */
export interface SpenderPrices {
  readonly dollars: TokenCosts | undefined
  readonly joules: TokenCosts | undefined
}

/** A side that an answer is to use, at the present prices, which hold for the answer from its start. */
export interface PricedSide extends WantedSide {
  readonly prices: SpenderPrices
}

export interface BudgetQuestion {
  readonly sides: Readonly<Partial<Record<Side, PricedSide>>>
  readonly promptTokens: number
  /** Whether the budget's share decides, so that the request counts for it. */
  readonly isAuto: boolean
}

export type BudgetInput =
  | { readonly kind: 'ask'; readonly answer: number; readonly question: BudgetQuestion }
  /** A side is to begin the answer, or to go on with it. */
  | { readonly kind: 'start'; readonly answer: number; readonly side: Side; readonly run: number; readonly request: RunRequest }
  /** Its server has the request of a run, and may answer all of it; or it has responded that it does not. */
  | { readonly kind: 'sent' | 'refused'; readonly run: number }
  | { readonly kind: 'arrived'; readonly run: number; readonly tokens: number }
  /** A run has ended by itself. @param promptTokens as its server counts them; absent: it does not tell */
  | { readonly kind: 'completed'; readonly run: number; readonly promptTokens?: number | undefined }
  /** A run was stopped, as of `RunAccount` */
  | {
      readonly kind: 'left'
      readonly run: number
      readonly promptTokens?: number | undefined
      readonly tokens?: number | undefined
    }
  /** What was reserved for the answer and cannot have been spent is free again. */
  | { readonly kind: 'end'; readonly answer: number }
  /** An answer that no budget limits, and nothing was reserved for, has cost this. */
  | { readonly kind: 'count'; readonly spender: Spender; readonly work: SideWork; readonly prices: SpenderPrices }

/** What one spender may spend, and has. */
export interface Balance {
  readonly spender: Spender
  readonly cap: Cap
  readonly spent: number
  /** By other answers. */
  readonly reserved: number
}

/** Why a side may not work. */
export interface Shortage extends Balance {
  /** What the answer may cost. */
  readonly needed: number
  /** Time until that is free, unless an answer in progress frees it before. */
  readonly waitMs: number
}

export type BudgetAction =
  /** The answer may begin. @param leftOut sides that it does without */
  | { readonly kind: 'admitted'; readonly sides: readonly Side[]; readonly leftOut: readonly Shortage[] }
  /** The run may begin. @param maxTokens undefined: any number. @param shortBy why that is less than it was asked for */
  | { readonly kind: 'allowed'; readonly maxTokens: number | undefined; readonly shortBy?: Balance | undefined }
  /** Answer or run may not begin. */
  | { readonly kind: 'exhausted'; readonly shortages: readonly Shortage[] }
  /** To be stored before anything else is done. */
  | { readonly kind: 'write'; readonly change: BookChange }

type PricesOf = (work: SideWork) => AccountSpending

/**
 * The budget of a device's owner: caps on what the server and the small model may spend in a window of time. It admits answers and
 * their sides, reserves all that a start may cost, and replaces that by what was spent. `nowMs` is the time of its book.
 */
export class BudgetMachine implements Machine<BudgetInput, BudgetAction> {
  readonly wakeMs = undefined
  readonly #settings: BudgetSettings
  readonly #book: SpendingBook
  readonly #answers = new Map<number, ReadonlyMap<Side, SideAccount>>()
  readonly #runs = new Map<number, { readonly answer: number; readonly account: RunAccount }>()
  readonly #actions = new PendingActions<BudgetAction>()
  #nowMs = 0
  #reservations = 0

  readonly #handlers: HandlersOf<BudgetInput> = {
    ask: ({ answer, question }) => this.#admit(answer, question),
    start: (input) => this.#start(input),
    sent: ({ run }) => this.#runs.get(run)?.account.sent(),
    refused: ({ run }) => this.#runs.get(run)?.account.refused(),
    arrived: ({ run, tokens }) => this.#runs.get(run)?.account.arrived(tokens),
    completed: ({ run, promptTokens }) => this.#runs.get(run)?.account.completed(promptTokens),
    left: ({ run, promptTokens, tokens }) => this.#runs.get(run)?.account.left(promptTokens, tokens),
    end: ({ answer }) => this.#end(answer),
    count: ({ spender, prices, work }) => this.#change({ kind: 'add', account: spender, spending: pricesOf(prices)(work) }),
  }

  constructor(settings: BudgetSettings, book: SpendingBook) {
    this.#settings = settings
    this.#book = book
  }

  /** What a side of an answer in progress has spent so far; undefined: it was not admitted. */
  spentBy(answer: number, side: Side): AccountSpending | undefined {
    return this.#answers.get(answer)?.get(side)?.spent
  }

  /** Time until a token fits into the budget. */
  waitMs(spender: Spender, nowMs: number): number {
    const cap = this.#settings.caps[spender]
    if (!cap) return 0
    const { [cap.figure]: spent } = this.#book.spent(spender, nowMs)
    // A total that reaches the cap is one too many.
    const justBelow = Math.max(0, cap.max * (1 - Number.EPSILON) - this.#book.reserved(spender)[cap.figure])
    return spent <= justBelow ? 0 : this.#book.msUntil(spender, cap.figure, justBelow, nowMs)
  }

  handle(input: BudgetInput, nowMs: number): readonly BudgetAction[] {
    this.#nowMs = nowMs
    handleKind(this.#handlers, input)
    return this.#actions.take()
  }

  #end(answer: number): void {
    for (const account of this.#answers.get(answer)?.values() ?? []) account.settle()
    this.#answers.delete(answer)
    for (const [run, { answer: of }] of this.#runs) if (of === answer) this.#runs.delete(run)
  }

  #admit(answer: number, question: BudgetQuestion): void {
    const wanted = Object.entries(question.sides) as [Side, PricedSide][]
    const exhausted = wanted.filter(([, side]) => !this.#hasRoom(side))
    const within = wanted.filter((side) => !exhausted.includes(side))
    const mayLeaveOut = this.#settings.leavesOut || exhausted.every(([, { isBackup }]) => isBackup)
    const shortages = exhausted.map(([, side]) => this.#shortageOf(side, pricesOf(side.prices)))
    if (exhausted.length > 0 && (!mayLeaveOut || within.length === 0)) {
      this.#actions.push({ kind: 'exhausted', shortages })
      return
    }
    const { promptTokens, isAuto } = question
    const spending = { ...nothingSpent, promptTokens, autoPromptTokens: isAuto ? promptTokens : 0 }
    this.#change({ kind: 'add', account: 'requests', spending })
    this.#answers.set(
      answer,
      // A backup that is alone is none.
      new Map(within.map(([side, each]) => [side, this.#account(each, isAuto, each.isBackup && within.length > 1)])),
    )
    this.#actions.push({ kind: 'admitted', sides: within.map(([side]) => side), leftOut: shortages })
  }

  #start({ answer, side, run, request }: OfKind<BudgetInput, 'start'>): void {
    const accounts = this.#answers.get(answer)
    const account = accounts?.get(side)
    if (!accounts || !account) throw new Error(`the budget has not admitted the ${side} side`)
    // The share limits the sides with which an answer starts: what migrates later does so because it costs less.
    const isStart = [...accounts.values()].every(({ spent }) => spent.tokens === 0)
    const { spender, spendingOf } = account.rates
    const before = this.#balanceOf(spender, account.reserved)
    const { limits, promptTokens } = request
    const started = account.start(request, isStart)
    if (!started) {
      const estimate = { promptTokens, tokens: limits.tokens ?? 1 }
      const shortage = this.#shortageOf({ spender, limits, estimate }, (work) => spendingOf(work, false))
      this.#actions.push({ kind: 'exhausted', shortages: [shortage] })
      return
    }
    this.#runs.set(run, { answer, account: started })
    const { maxTokens } = started
    const isShort = before !== undefined && maxTokens! < (limits.tokens ?? defaultMaxTokens)
    this.#actions.push({ kind: 'allowed', maxTokens, ...(isShort && { shortBy: before }) })
  }

  #change(change: BookChange): void {
    if (this.#book.change(change, this.#nowMs)) this.#actions.push({ kind: 'write', change })
  }

  #balanceOf(spender: Spender, own = nothingSpent): Balance | undefined {
    const cap = this.#settings.caps[spender]
    if (!cap) return undefined
    const spent = this.#book.spent(spender, this.#nowMs)[cap.figure]
    return { spender, cap, spent, reserved: this.#book.reserved(spender)[cap.figure] - own[cap.figure] }
  }

  #shortageOf(side: Pick<WantedSide, 'spender' | 'estimate' | 'limits'>, prices: PricesOf): Shortage {
    const balance = this.#balanceOf(side.spender)!
    const { figure, max } = balance.cap
    const needed = neededBy(side, prices)[figure]
    const free = Math.max(0, Math.max(0, max - needed) - balance.reserved)
    return { ...balance, needed, waitMs: this.#book.msUntil(side.spender, figure, free, this.#nowMs) }
  }

  /** An answer that may cost more than the whole budget is admitted while nothing else is spent, and shortened. */
  #hasRoom(side: PricedSide): boolean {
    const balance = this.#balanceOf(side.spender)
    if (!balance) return true
    const { cap, spent, reserved } = balance
    const used = spent + reserved
    const prices = pricesOf(side.prices)
    const needed = neededBy(side, prices)[cap.figure]
    if (used > 0 || needed <= cap.max) return used < cap.max && used + needed <= cap.max
    return affordable(cap, prices, 0, side.limits.promptTokens) >= 1
  }

  /** @param isBackup nothing is reserved for it before it starts */
  #account({ spender, estimate, limits, prices }: PricedSide, isAuto: boolean, isBackup: boolean): SideAccount {
    const cap = this.#settings.caps[spender]
    const costs = pricesOf(prices)
    const used = () => (cap ? sumOf(this.#book.spent(spender, this.#nowMs), this.#book.reserved(spender))[cap.figure] : 0)
    const expected = () => {
      if (!cap) return estimate
      return {
        ...limits,
        tokens: Math.min(limits.tokens ?? defaultMaxTokens, affordable(cap, costs, used(), limits.promptTokens)),
      }
    }
    const reservation = this.#reserve(spender, isBackup ? nothingSpent : costs(expected()))
    return new SideAccount(
      {
        spender,
        isCapped: cap !== undefined,
        spendingOf: (work, isStart) => ({
          ...costs(work),
          autoPromptTokens: isAuto && isStart ? Math.round(work.promptTokens) : 0,
        }),
        affordable: (promptTokens, committed) => {
          if (!cap) return Number.MAX_SAFE_INTEGER
          const others = used() - reservation.spending[cap.figure]
          return affordable(cap, costs, others + committed[cap.figure], promptTokens)
        },
      },
      reservation,
    )
  }

  #reserve(account: Spender, spending: AccountSpending) {
    this.#reservations += 1
    const id = this.#reservations
    this.#change({ kind: 'reserve', id, account, spending })
    let present = spending
    return {
      get spending() {
        return present
      },
      raise: (raised: AccountSpending) => {
        present = raised
        this.#change({ kind: 'raise', id, account, spending: raised })
      },
      settle: (spent: AccountSpending) => this.#change({ kind: 'settle', id, account, spending: spent }),
    }
  }
}

/** What a side must be able to spend to be admitted: the longest prompt, and as many tokens as are expected. */
function neededBy({ estimate, limits }: Pick<WantedSide, 'estimate' | 'limits'>, prices: PricesOf): AccountSpending {
  const tokens = Math.max(1, Math.ceil(Math.min(estimate.tokens, limits.tokens ?? estimate.tokens)))
  return prices({ promptTokens: limits.promptTokens, tokens })
}

/** Tokens that may follow a prompt. @param used of the figure */
function affordable({ figure, max }: Cap, prices: PricesOf, used: number, promptTokens: number): number {
  const prompt = prices({ promptTokens, tokens: 0 })[figure]
  const perToken = prices({ promptTokens: 0, tokens: 1 })[figure]
  const left = max - used - prompt
  if (left < 0) return 0
  if (perToken === 0) return Number.MAX_SAFE_INTEGER
  const tokens = Math.floor(left / perToken)
  // Sums of fractions may be rounded up.
  return used + prices({ promptTokens, tokens })[figure] <= max ? tokens : Math.max(0, tokens - 1)
}

function pricesOf({ dollars, joules }: SpenderPrices): PricesOf {
  return (work) => ({
    promptTokens: Math.round(work.promptTokens),
    autoPromptTokens: 0,
    tokens: Math.round(work.tokens),
    dollars: dollars ? costOf(dollars, work) : 0,
    joules: joules ? costOf(joules, work) : 0,
  })
}
