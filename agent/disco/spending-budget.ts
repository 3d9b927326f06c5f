import type { SideCost } from '../../core/answer/endpoint/figures.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Warn } from '../../core/kit/base/sampled-warnings.ts'
import {
  type Balance,
  type BudgetAction,
  type BudgetInput,
  BudgetMachine,
  type BudgetSettings,
  type Cap,
  type Shortage,
  type SpenderPrices,
} from '../../core/policy/disco/budget-machine.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import { limitedSide, localCosts } from '../../core/policy/disco/costs.ts'
import type { ExchangeRate } from '../../core/policy/disco/exchange-rate.ts'
import type { AccountSpending as Spent } from '../../core/policy/disco/spending.ts'
import type { Spender } from '../../core/policy/disco/spending-book.ts'
import { reportedSide, type Side, type TokenCosts } from '../../core/policy/disco/state.ts'
import type { Machine } from '../../core/policy/machine.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import type { Budget, BudgetAdmission, BudgetedRun, BudgetRequest } from './budget.ts'
import type { BudgetConfig, DispatchConfig } from './config.ts'
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
  readonly recording?: Recording | undefined
}

type Decision = Exclude<BudgetAction, { readonly kind: 'write' }>

/** The budget of this device's owner, with its ledger: carries out what the machine decides, and says why it refuses. */
export class SpendingBudget implements Budget {
  readonly #options: SpendingBudgetOptions
  readonly #budget: BudgetMachine
  readonly #machine: Machine<BudgetInput, BudgetAction>
  #answers = 0
  #runs = 0
  /** Aborted and replaced when an answer frees what it had reserved. */
  #freed = new AbortController()

  constructor(options: SpendingBudgetOptions) {
    const { config, ledger, recording } = options
    const settings = settingsOf(config)
    this.#options = options
    this.#budget = new BudgetMachine(settings, ledger.book)
    const recorded = { ...settings, windowMs: windowMsOf(config), spent: ledger.spent }
    this.#machine = recording?.of('budget', recorded, this.#budget) ?? this.#budget
  }

  costs(spender: Spender): TokenCosts | undefined {
    const { price, exchangeRate } = this.#options
    if (spender === 'server') return price
    const joules = this.#energyOf(spender)
    return joules && localCosts(joules, exchangeRate().dollarsPerJoule)
  }

  count(spender: Spender, { promptTokens, tokens }: SideWork): void {
    this.#handle({ kind: 'count', spender, work: { promptTokens, tokens }, prices: this.#pricesOf(spender) })
  }

  async admit(request: BudgetRequest, signal: AbortSignal): Promise<BudgetAdmission> {
    const { config, maxWaitMs, clock, warn } = this.#options
    const untilMs = clock.nowMs() + maxWaitMs
    for (;;) {
      signal.throwIfAborted()
      this.#answers += 1
      const answer = this.#answers
      const sides = Object.fromEntries(
        Object.entries(request.sides).map(([side, each]) => [side, { ...each, prices: this.#pricesOf(each.spender) }]),
      )
      const decision = this.#handle({ kind: 'ask', answer, question: { ...request, sides } })
      if (decision?.kind === 'admitted') {
        const error = decision.leftOut.length > 0 ? this.#exhausted(decision.leftOut) : undefined
        if (error) warn({ reason: error.message }, 'budget exhausted: a side of the answer is left out')
        return this.#admission(answer, request, decision.sides, error?.message)
      }
      const error = this.#exhausted(shortagesOf(decision))
      const leftMs = untilMs - clock.nowMs()
      if (config.whenExhausted !== 'wait' || leftMs <= 0) throw error
      const woken = AbortSignal.any([signal, this.#freed.signal])
      await clock.sleep(Math.min(leftMs, error.retryAfterMs ?? 0), woken).catch(() => {})
    }
  }

  /** Window, spending and what is left, for the owner. */
  get report(): Spending {
    const { config, dispatch, price, energy, exchangeRate, ledger } = this.#options
    const { book, nowMs } = ledger
    const [server, slm, hat, requests] = (['server', 'slm', 'hat', 'requests'] as const).map((account) =>
      book.spent(account, nowMs),
    )
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
        reservedDollars: digits(book.reserved('server').dollars),
        maxDollars: config.dollars ?? null,
        promptDollarsPerToken: price?.prompt ?? null,
        outputDollarsPerToken: price?.output ?? null,
        waitS: this.#waitS('server'),
      },
      slm: {
        ...workOf(slm!),
        joules: joules ? digits(slm!.joules) : null,
        reservedJoules: digits(book.reserved('slm').joules),
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

  #waitS(spender: Spender): number {
    return digits(this.#budget.waitMs(spender, this.#options.ledger.nowMs) / 1_000)
  }

  #handle(input: BudgetInput): Decision | undefined {
    const { ledger } = this.#options
    let decision: Decision | undefined
    for (const action of this.#machine.handle(input, ledger.nowMs)) {
      if (action.kind === 'write') ledger.write(action.change)
      else decision = action
    }
    return decision
  }

  #admission(answer: number, { sides }: BudgetRequest, admitted: readonly Side[], leftOut: string | undefined): BudgetAdmission {
    const { config } = this.#options
    const energy = this.#options.energy()?.source ?? null
    let exhausted = leftOut
    const costNow = (side: Side) => this.#costOf(sides[side]?.spender, this.#budget.spentBy(answer, side), energy)
    /** Once the answer has ended. */
    let costs: Readonly<Record<Side, SideCost>> | undefined
    return {
      sides: admitted,
      get exhausted() {
        return exhausted
      },
      start: (side, request) => {
        this.#runs += 1
        const run = this.#runs
        const decision = this.#handle({ kind: 'start', answer, side, run, request })
        if (decision?.kind !== 'allowed') throw this.#exhausted(shortagesOf(decision))
        const { maxTokens, shortBy } = decision
        if (shortBy)
          exhausted ??= `the budget for ${config.windowH} h allows ${maxTokens} tokens of this answer: ${spentText(shortBy)}`
        return this.#run(run, maxTokens)
      },
      costOf: (side) => costs?.[side] ?? costNow(side),
      end: () => {
        costs ??= { local: costNow('local'), remote: costNow('remote') }
        this.#handle({ kind: 'end', answer })
        this.#freed.abort()
        this.#freed = new AbortController()
      },
    }
  }

  #run(run: number, maxTokens: number | undefined): BudgetedRun {
    return {
      maxTokens,
      sent: () => void this.#handle({ kind: 'sent', run }),
      refused: () => void this.#handle({ kind: 'refused', run }),
      arrived: (tokens) => void this.#handle({ kind: 'arrived', run, tokens }),
      completed: (promptTokens) => void this.#handle({ kind: 'completed', run, promptTokens }),
      left: (promptTokens, tokens) => void this.#handle({ kind: 'left', run, promptTokens, tokens }),
    }
  }

  #exhausted(shortages: readonly Shortage[]): BrimError {
    const { config } = this.#options
    const waits = shortages.map(({ waitMs }) => waitMs)
    const texts = shortages.map((shortage) => {
      const { cap, spent, reserved, needed } = shortage
      const expected = spent + reserved >= cap.max ? '' : `; this answer may take ${amount(needed, cap.figure)}`
      return `${spentText(shortage)}${expected}`
    })
    const flags = shortages.map(({ cap }) => `--budget-${cap.figure}`)
    return new BrimError('BUDGET_EXHAUSTED', `the budget for ${config.windowH} h is exhausted: ${texts.join('; ')}`, {
      hint: `ask again later, or in a mode that spends nothing there; its owner may raise ${flags.join(' or ')}: see "brim agent budget"`,
      // Answers in progress may free what they have reserved at any time.
      retryAfterMs: Math.max(minRetryMs, config.whenExhausted === 'other' ? Math.min(...waits) : Math.max(...waits)),
    })
  }

  /** What HAT costs the device and the bridge is unknown. */
  #energyOf(spender: Spender): EnergyPerToken | undefined {
    return spender === 'slm' ? this.#options.energy() : undefined
  }

  #pricesOf(spender: Spender): SpenderPrices {
    const joules = this.#energyOf(spender)
    return { dollars: this.costs(spender), joules: joules && { prompt: joules.prompt, output: joules.output } }
  }

  /** @param energy how that of the small model was known when the answer began */
  #costOf(spender: Spender | undefined, spent: Spent | undefined, energy: EnergyPerToken['source'] | null): SideCost {
    if (!spender || !spent) return { promptTokens: 0, tokens: 0, dollars: 0 }
    const { promptTokens, tokens, dollars, joules } = spent
    const isSpent = tokens + promptTokens > 0
    const isKnown = !isSpent || this.costs(spender) !== undefined
    const cost = { promptTokens, tokens, dollars: isKnown ? dollars : null }
    if (spender === 'server') return cost
    const source = isSpent && spender === 'slm' ? energy : null
    return { ...cost, joules: source === null ? null : joules, energy: source }
  }
}

const shortagesOf = (decision: Decision | undefined): readonly Shortage[] =>
  decision?.kind === 'exhausted' ? decision.shortages : []

const windowMsOf = ({ windowH }: BudgetConfig): number => windowH * 3_600_000

/** HAT is the bridge's work, for which the device only drafts. */
function settingsOf({ dollars, joules, whenExhausted }: BudgetConfig): BudgetSettings {
  return {
    caps: {
      ...(dollars !== undefined && { server: { figure: 'dollars' as const, max: dollars } }),
      ...(joules !== undefined && { slm: { figure: 'joules' as const, max: joules } }),
    },
    leavesOut: whenExhausted === 'other',
  }
}

function spentText({ spender, cap: { figure, max }, spent, reserved }: Balance): string {
  const held = reserved > 0 ? `, ${amount(reserved, figure)} reserved by answers in progress` : ''
  return `${names[spender]} has spent ${amount(spent, figure)} of ${amount(max, figure)}${held}`
}

/** Before a request that was refused is worth another attempt. */
const minRetryMs = 1_000

const names: Readonly<Record<Spender, string>> = { slm: 'the small model', hat: 'HAT', server: 'the server' }

const amount = (value: number, figure: Cap['figure']) => (figure === 'dollars' ? `$${digits(value)}` : `${digits(value)} J`)
const digits = (value: number) => Number(value.toPrecision(4))
