import type { SideCost } from '../../core/answer/figures.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Warn } from '../../core/base/sampled-warnings.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import { constrainedSide, costOf, deviceCosts } from '../../core/policy/disco/costs.ts'
import type { ExchangeRate } from '../../core/policy/disco/exchange-rate.ts'
import { nothingSpent, type Spending as Spent, sumOf } from '../../core/policy/disco/spending.ts'
import type { Side, TokenCosts } from '../../core/policy/disco/state.ts'
import type { Spending } from '../../core/protocol/spending.ts'
import type { Admission, Budget, BudgetRequest, Spender, WantedSide } from './budget.ts'
import type { BudgetConfig, DispatchConfig } from './config.ts'
import type { Reservation, SpendingLedger } from './spending-ledger.ts'

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
    return joules && deviceCosts(joules, exchangeRate().dollarsPerJoule)
  }

  async admit(request: BudgetRequest, signal: AbortSignal): Promise<Admission> {
    const { config, maxWaitMs, clock, warn } = this.#options
    const wanted = Object.entries(request.sides) as [Side, WantedSide][]
    const untilMs = clock.nowMs() + maxWaitMs
    for (;;) {
      signal.throwIfAborted()
      const exhausted = wanted.filter(([, side]) => !this.#hasRoom(side))
      const within = wanted.filter((side) => !exhausted.includes(side))
      const isEnough = config.whenExhausted === 'other' ? within.length > 0 : exhausted.every(([, { isBackup }]) => isBackup)
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
        constrained:
          dispatch.constrained === 'auto' ? constrainedSide({ device: this.costs('slm'), server: price }) : dispatch.constrained,
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

  /** One answer that costs more than the whole budget still is admitted, alone. */
  #maxBefore({ spender, estimate }: WantedSide, { figure, max }: Cap): number {
    return Math.max(0, max - this.#spendingOf(spender, estimate, false)[figure])
  }

  #hasRoom(side: WantedSide): boolean {
    const cap = this.#capOf(side.spender)
    if (!cap) return true
    const { ledger } = this.#options
    const used = sumOf(ledger.spent(side.spender), ledger.reserved(side.spender))[cap.figure]
    return used <= this.#maxBefore(side, cap) && used < cap.max
  }

  #exhausted(sides: readonly WantedSide[]): BrimError {
    const { ledger, config } = this.#options
    const waits = sides.map((side) => {
      const cap = this.#capOf(side.spender)!
      const reserved = ledger.reserved(side.spender)[cap.figure]
      return ledger.msUntil(side.spender, cap.figure, Math.max(0, this.#maxBefore(side, cap) - reserved))
    })
    const texts = sides.map(({ spender, estimate }) => {
      const { figure, max } = this.#capOf(spender)!
      const [spent, reserved] = [ledger.spent(spender)[figure], ledger.reserved(spender)[figure]]
      const held = reserved > 0 ? `, ${amount(reserved, figure)} reserved by answers in progress` : ''
      const isFull = spent + reserved >= max
      const expected = isFull
        ? ''
        : `; this answer may take ${amount(this.#spendingOf(spender, estimate, false)[figure], figure)}`
      return `${names[spender]} has spent ${amount(spent, figure)} of ${amount(max, figure)}${held}${expected}`
    })
    const flags = sides.map(({ spender }) => `--budget-${this.#capOf(spender)!.figure}`)
    return new BrimError('BUDGET_EXHAUSTED', `the budget for ${config.windowH} h is exhausted: ${texts.join('; ')}`, {
      hint: `ask again later, or in a mode that spends nothing there; its owner may raise ${flags.join(' or ')}: see "brim agent budget"`,
      // Answers in progress may free what they have reserved at any time.
      retryAfterMs: Math.max(minRetryMs, config.whenExhausted === 'other' ? Math.min(...waits) : Math.max(...waits)),
    })
  }

  #begin(
    { promptTokens, isAuto }: BudgetRequest,
    sides: readonly (readonly [Side, WantedSide])[],
    exhausted: string | undefined,
  ): Admission {
    const { ledger } = this.#options
    ledger.add('requests', { ...nothingSpent, promptTokens, autoPromptTokens: isAuto ? promptTokens : 0 })
    const reserve = ({ spender, estimate, isBackup }: WantedSide) =>
      // A backup that is alone is none.
      ledger.reserve(spender, isBackup && sides.length > 1 ? nothingSpent : this.#spendingOf(spender, estimate, isAuto))
    const accounts = new Map(sides.map(([side, wanted]) => [side, new AnswerAccount(wanted.spender, reserve(wanted))]))
    return {
      sides: [...accounts.keys()],
      exhausted,
      spent: (side, work) => {
        const account = accounts.get(side)
        if (!account) throw new Error(`the budget has not admitted the ${side} side`)
        // The share limits the sides with which an answer starts: what migrates later does so because it costs less.
        const isStart = [...accounts.values()].every(({ spent }) => spent.tokens === 0)
        account.add(this.#spendingOf(account.spender, work, isAuto && isStart), this.#energyOf(account.spender)?.source)
      },
      costOf: (side) => this.#costOf(accounts.get(side)),
      end: () => {
        for (const account of accounts.values()) account.settle()
        this.#freed.abort()
        this.#freed = new AbortController()
      },
    }
  }

  /** What HAT costs the device and the bridge is unknown. */
  #energyOf(spender: Spender): EnergyPerToken | undefined {
    return spender === 'slm' ? this.#options.energy() : undefined
  }

  /** Unknown prices and energies count as 0. */
  #spendingOf(spender: Spender, work: SideWork, isAuto: boolean): Spent {
    const energy = this.#energyOf(spender)
    const costs = this.costs(spender)
    return {
      promptTokens: Math.round(work.promptTokens),
      autoPromptTokens: isAuto ? Math.round(work.promptTokens) : 0,
      tokens: Math.round(work.tokens),
      dollars: costs ? costOf(costs, work) : 0,
      joules: energy ? costOf(energy, work) : 0,
    }
  }

  #costOf(account: AnswerAccount | undefined): SideCost {
    if (!account) return { promptTokens: 0, tokens: 0, dollars: 0 }
    const { spender, spent, energy } = account
    const { promptTokens, tokens, dollars, joules } = spent
    const isKnown = tokens + promptTokens === 0 || this.costs(spender) !== undefined
    const cost = { promptTokens, tokens, dollars: isKnown ? dollars : null }
    return spender === 'server' ? cost : { ...cost, joules: energy === null ? null : joules, energy }
  }
}

/** What one side has spent on one answer. */
class AnswerAccount {
  readonly spender: Spender
  readonly #reservation: Reservation
  spent = nothingSpent
  /** How the energy is known; null: it is not, or none was spent. */
  energy: EnergyPerToken['source'] | null = null

  constructor(spender: Spender, reservation: Reservation) {
    this.spender = spender
    this.#reservation = reservation
  }

  add(spending: Spent, energy: EnergyPerToken['source'] | undefined): void {
    this.spent = sumOf(this.spent, spending)
    // By twice as much each time, because it is stored.
    const { tokens, promptTokens } = this.#reservation.spending
    if (this.spent.tokens > tokens || this.spent.promptTokens > promptTokens)
      this.#reservation.raise(sumOf(this.spent, this.spent))
    this.energy = energy ?? this.energy
  }

  settle(): void {
    this.#reservation.settle(this.spent)
  }
}

/** Before a request that was refused is worth another attempt. */
const minRetryMs = 1_000

const names: Readonly<Record<Spender, string>> = { slm: 'the small model', hat: 'HAT', server: 'the server' }

const amount = (value: number, figure: Cap['figure']) => (figure === 'dollars' ? `$${digits(value)}` : `${digits(value)} J`)
const digits = (value: number) => Number(value.toPrecision(4))
