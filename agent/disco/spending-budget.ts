import type { SideCost } from '../../core/answer/figures.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Warn } from '../../core/base/sampled-warnings.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import { costOf, limitedSide, localCosts } from '../../core/policy/disco/costs.ts'
import type { ExchangeRate } from '../../core/policy/disco/exchange-rate.ts'
import { nothingSpent, type Spending as Spent, sumOf } from '../../core/policy/disco/spending.ts'
import { reportedSide, type Side, type TokenCosts } from '../../core/policy/disco/state.ts'
import type { Spending } from '../../core/protocol/spending.ts'
import type { Admission, Budget, BudgetRequest, Spender, WantedSide } from './budget.ts'
import type { BudgetConfig, DispatchConfig } from './config.ts'
import { defaultMaxTokens, SideAccount, type SideRates } from './side-account.ts'
import type { SpendingLedger } from './spending-ledger.ts'

/** J per token. */
export interface EnergyPerToken extends TokenCosts {
  /** 'measured': from the power of the device; 'flops': estimated from the model's size. */
  readonly source: 'measured' | 'flops'
}

export interface SpendingBudgetOptions {
  readonly config: BudgetConfig
  /** What mode `auto` is limited to. */
  readonly dispatch: Pick<DispatchConfig, 'constrained' | 'share'>
  /** Longest wait of a request for the budget. */
  readonly maxWaitMs: number
  /** Of the server; undefined: unknown. */
  readonly price: TokenCosts | undefined
  /** Of the small model; undefined: unknown. */
  readonly energy: () => EnergyPerToken | undefined
  /** λ (DiSCo Eq. 8). */
  readonly exchangeRate: () => ExchangeRate
  readonly ledger: SpendingLedger
  readonly clock: Clock
  readonly warn: Warn
}

type PricesOf = (work: SideWork) => Spent

/** What a budget limits. */
interface Cap {
  readonly figure: 'dollars' | 'joules'
  readonly max: number
}

/** The budget of this device's owner: caps on what the server and the small model may spend in a window of time. */
export class SpendingBudget implements Budget {
  readonly #options: SpendingBudgetOptions
  /** Aborted and replaced when an answer frees what it had reserved. */
  #freed = new AbortController()

  constructor(options: SpendingBudgetOptions) {
    this.#options = options
  }

  costs(spender: Spender): TokenCosts | undefined {
    const { price, exchangeRate } = this.#options
    if (spender === 'server') return price
    const joules = this.#energyOf(spender)
    return joules && localCosts(joules, exchangeRate().dollarsPerJoule)
  }

  count(spender: Spender, work: SideWork): void {
    this.#options.ledger.add(spender, this.#pricesOf(spender)(work))
  }

  async admit(request: BudgetRequest, signal: AbortSignal): Promise<Admission> {
    const { config, maxWaitMs, clock, warn } = this.#options
    const wanted = Object.entries(request.sides) as [Side, WantedSide][]
    const untilMs = clock.nowMs() + maxWaitMs
    for (;;) {
      signal.throwIfAborted()
      const exhausted = wanted.filter(([, side]) => !this.#hasRoom(side))
      const within = wanted.filter((side) => !exhausted.includes(side))
      const mayLeaveOut = config.whenExhausted === 'other' || exhausted.every(([, { isBackup }]) => isBackup)
      const isEnough = mayLeaveOut && within.length > 0
      const error = exhausted.length > 0 ? this.#exhausted(exhausted.map(([, side]) => side)) : undefined
      if (!error || isEnough) {
        if (error) warn({ reason: error.message }, 'budget exhausted: a side of the answer is left out')
        return this.#begin(request, within, error?.message)
      }
      const leftMs = untilMs - clock.nowMs()
      if (config.whenExhausted !== 'wait' || leftMs <= 0) throw error
      const woken = AbortSignal.any([signal, this.#freed.signal])
      await clock.sleep(Math.min(leftMs, error.retryAfterMs ?? 0), woken).catch(() => {})
    }
  }

  /** Window, spending and what is left, for the owner. */
  get report(): Spending {
    const { config, dispatch, price, energy, exchangeRate, ledger } = this.#options
    const [server, slm, hat, requests] = (['server', 'slm', 'hat', 'requests'] as const).map((account) => ledger.spent(account))
    const shareOf = (prompt: number) => (requests!.autoPromptTokens > 0 ? digits(prompt / requests!.autoPromptTokens) : null)
    const workOf = ({ promptTokens, tokens }: Spent) => ({ promptTokens, tokens })
    const joules = energy()
    const rate = exchangeRate()
    return {
      windowS: config.windowH * 3_600,
      whenExhausted: config.whenExhausted,
      server: {
        ...workOf(server!),
        dollars: price ? digits(server!.dollars) : null,
        reservedDollars: digits(ledger.reserved('server').dollars),
        maxDollars: config.dollars ?? null,
        promptDollarsPerToken: price?.prompt ?? null,
        outputDollarsPerToken: price?.output ?? null,
        waitS: this.#waitS('server'),
      },
      slm: {
        ...workOf(slm!),
        joules: joules ? digits(slm!.joules) : null,
        reservedJoules: digits(ledger.reserved('slm').joules),
        maxJoules: config.joules ?? null,
        energySource: joules?.source ?? null,
        prefillJPerToken: joules ? digits(joules.prompt) : null,
        decodeJPerToken: joules ? digits(joules.output) : null,
        dollarsPerJoule: digits(rate.dollarsPerJoule),
        energyReason: rate.reason,
        waitS: this.#waitS('slm'),
      },
      hat: workOf(hat!),
      auto: {
        promptTokens: requests!.autoPromptTokens,
        constrained: reportedSide(limitedSide(dispatch.constrained, { local: this.costs('slm'), remote: price })),
        maxShare: dispatch.share,
        deviceShare: shareOf(slm!.autoPromptTokens),
        serverShare: shareOf(server!.autoPromptTokens + hat!.autoPromptTokens),
      },
    }
  }

  /** Time until a token fits into the budget. */
  #waitS(spender: Spender): number {
    const cap = this.#capOf(spender)
    if (!cap) return 0
    const { ledger } = this.#options
    const { [cap.figure]: spent } = ledger.spent(spender)
    // A total that reaches the cap is one too many.
    const justBelow = Math.max(0, cap.max * (1 - Number.EPSILON) - ledger.reserved(spender)[cap.figure])
    return spent <= justBelow ? 0 : digits(ledger.msUntil(spender, cap.figure, justBelow) / 1_000)
  }

  #capOf(spender: Spender): Cap | undefined {
    const { dollars, joules } = this.#options.config
    if (spender === 'server') return dollars === undefined ? undefined : { figure: 'dollars', max: dollars }
    // HAT is the bridge's work, for which the device only drafts.
    return spender === 'slm' && joules !== undefined ? { figure: 'joules', max: joules } : undefined
  }

  /** What a side must be able to spend to be admitted: the longest prompt, and as many tokens as are expected. */
  #needed({ spender, estimate, limits }: WantedSide): Spent {
    const tokens = Math.max(1, Math.ceil(Math.min(estimate.tokens, limits.tokens ?? estimate.tokens)))
    return this.#pricesOf(spender)({ promptTokens: limits.promptTokens, tokens })
  }

  #maxBefore(side: WantedSide, { figure, max }: Cap): number {
    return Math.max(0, max - this.#needed(side)[figure])
  }

  /** An answer that may cost more than the whole budget is admitted while nothing else is spent, and shortened. */
  #hasRoom(side: WantedSide): boolean {
    const cap = this.#capOf(side.spender)
    if (!cap) return true
    const { ledger } = this.#options
    const used = sumOf(ledger.spent(side.spender), ledger.reserved(side.spender))[cap.figure]
    if (used > 0 || this.#needed(side)[cap.figure] <= cap.max)
      return used < cap.max && used + this.#needed(side)[cap.figure] <= cap.max
    return this.#affordable(cap, this.#pricesOf(side.spender), 0, side.limits.promptTokens) >= 1
  }

  /** Tokens that may follow a prompt. @param used of the figure */
  #affordable({ figure, max }: Cap, pricesOf: PricesOf, used: number, promptTokens: number): number {
    const prompt = pricesOf({ promptTokens, tokens: 0 })[figure]
    const perToken = pricesOf({ promptTokens: 0, tokens: 1 })[figure]
    const left = max - used - prompt
    if (left < 0) return 0
    if (perToken === 0) return Number.MAX_SAFE_INTEGER
    const tokens = Math.floor(left / perToken)
    // Sums of fractions may be rounded up.
    return used + pricesOf({ promptTokens, tokens })[figure] <= max ? tokens : Math.max(0, tokens - 1)
  }

  #exhausted(sides: readonly WantedSide[]): BrimError {
    const { ledger, config } = this.#options
    const waits = sides.map((side) => {
      const cap = this.#capOf(side.spender)!
      const reserved = ledger.reserved(side.spender)[cap.figure]
      return ledger.msUntil(side.spender, cap.figure, Math.max(0, this.#maxBefore(side, cap) - reserved))
    })
    const texts = sides.map((side) => {
      const { figure, max } = this.#capOf(side.spender)!
      const isFull = ledger.spent(side.spender)[figure] + ledger.reserved(side.spender)[figure] >= max
      const expected = isFull ? '' : `; this answer may take ${amount(this.#needed(side)[figure], figure)}`
      return `${this.#spentText(side.spender)}${expected}`
    })
    const flags = sides.map(({ spender }) => `--budget-${this.#capOf(spender)!.figure}`)
    return new BrimError('BUDGET_EXHAUSTED', `the budget for ${config.windowH} h is exhausted: ${texts.join('; ')}`, {
      hint: `ask again later, or in a mode that spends nothing there; its owner may raise ${flags.join(' or ')}: see "brim agent budget"`,
      // Answers in progress may free what they have reserved at any time.
      retryAfterMs: Math.max(minRetryMs, config.whenExhausted === 'other' ? Math.min(...waits) : Math.max(...waits)),
    })
  }

  /** @param spender whose spending is limited @param own what the answer itself has reserved */
  #spentText(spender: Spender, own = nothingSpent): string {
    const { ledger } = this.#options
    const { figure, max } = this.#capOf(spender)!
    const spent = ledger.spent(spender)[figure]
    const reserved = ledger.reserved(spender)[figure] - own[figure]
    const held = reserved > 0 ? `, ${amount(reserved, figure)} reserved by answers in progress` : ''
    return `${names[spender]} has spent ${amount(spent, figure)} of ${amount(max, figure)}${held}`
  }

  #begin(
    { promptTokens, isAuto }: BudgetRequest,
    sides: readonly (readonly [Side, WantedSide])[],
    leftOut: string | undefined,
  ): Admission {
    const { ledger, config } = this.#options
    ledger.add('requests', { ...nothingSpent, promptTokens, autoPromptTokens: isAuto ? promptTokens : 0 })
    const accounts = new Map(
      // A backup that is alone is none.
      sides.map(([side, wanted]) => [side, this.#account(wanted, isAuto, wanted.isBackup && sides.length > 1)]),
    )
    let exhausted = leftOut
    return {
      sides: [...accounts.keys()],
      get exhausted() {
        return exhausted
      },
      start: (side, request) => {
        const account = accounts.get(side)
        if (!account) throw new Error(`the budget has not admitted the ${side} side`)
        const { spender } = account.rates
        // The share limits the sides with which an answer starts: what migrates later does so because it costs less.
        const isStart = [...accounts.values()].every(({ spent }) => spent.tokens === 0)
        const spent = this.#capOf(spender) && this.#spentText(spender, account.reserved)
        const run = account.start(request, isStart)
        if (!run) {
          const { limits, promptTokens } = request
          const estimate = { promptTokens, tokens: limits.tokens ?? 1 }
          throw this.#exhausted([{ spender, limits, estimate, isBackup: true }])
        }
        if (spent !== undefined && run.maxTokens! < (request.limits.tokens ?? defaultMaxTokens))
          exhausted ??= `the budget for ${config.windowH} h allows ${run.maxTokens} tokens of this answer: ${spent}`
        return run
      },
      costOf: (side) => this.#costOf(accounts.get(side)),
      end: () => {
        for (const account of accounts.values()) account.settle()
        this.#freed.abort()
        this.#freed = new AbortController()
      },
    }
  }

  /** @param isBackup nothing is reserved for it before it starts */
  #account({ spender, estimate, limits }: WantedSide, isAuto: boolean, isBackup: boolean): SideAccount {
    const { ledger } = this.#options
    const cap = this.#capOf(spender)
    const pricesOf = this.#pricesOf(spender)
    const used = () => (cap ? sumOf(ledger.spent(spender), ledger.reserved(spender))[cap.figure] : 0)
    const expected = () => {
      if (!cap) return estimate
      const affordable = this.#affordable(cap, pricesOf, used(), limits.promptTokens)
      return { ...limits, tokens: Math.min(limits.tokens ?? defaultMaxTokens, affordable) }
    }
    const reservation = ledger.reserve(spender, isBackup ? nothingSpent : pricesOf(expected()))
    const rates: SideRates = {
      spender,
      isCapped: cap !== undefined,
      energy: this.#energyOf(spender)?.source ?? null,
      spendingOf: (work, isStart) => ({
        ...pricesOf(work),
        autoPromptTokens: isAuto && isStart ? Math.round(work.promptTokens) : 0,
      }),
      affordable: (promptTokens, committed) => {
        if (!cap) return Number.MAX_SAFE_INTEGER
        const others = used() - reservation.spending[cap.figure]
        return this.#affordable(cap, pricesOf, others + committed[cap.figure], promptTokens)
      },
    }
    return new SideAccount(rates, reservation)
  }

  /** What HAT costs the device and the bridge is unknown. */
  #energyOf(spender: Spender): EnergyPerToken | undefined {
    return spender === 'slm' ? this.#options.energy() : undefined
  }

  /** At the present prices, which hold for an answer from its start. Unknown ones count as 0. */
  #pricesOf(spender: Spender): PricesOf {
    const energy = this.#energyOf(spender)
    const costs = this.costs(spender)
    return (work) => ({
      promptTokens: Math.round(work.promptTokens),
      autoPromptTokens: 0,
      tokens: Math.round(work.tokens),
      dollars: costs ? costOf(costs, work) : 0,
      joules: energy ? costOf(energy, work) : 0,
    })
  }

  #costOf(account: SideAccount | undefined): SideCost {
    if (!account) return { promptTokens: 0, tokens: 0, dollars: 0 }
    const { spent, rates } = account
    const { promptTokens, tokens, dollars, joules } = spent
    const isSpent = tokens + promptTokens > 0
    const isKnown = !isSpent || this.costs(rates.spender) !== undefined
    const cost = { promptTokens, tokens, dollars: isKnown ? dollars : null }
    if (rates.spender === 'server') return cost
    const energy = isSpent ? rates.energy : null
    return { ...cost, joules: energy === null ? null : joules, energy }
  }
}

/** Before a request that was refused is worth another attempt. */
const minRetryMs = 1_000

const names: Readonly<Record<Spender, string>> = { slm: 'the small model', hat: 'HAT', server: 'the server' }

const amount = (value: number, figure: Cap['figure']) => (figure === 'dollars' ? `$${digits(value)}` : `${digits(value)} J`)
const digits = (value: number) => Number(value.toPrecision(4))
