import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { BudgetRequest, Spender } from '../../../agent/disco/budget.ts'
import { BudgetConfig } from '../../../agent/disco/config.ts'
import { type EnergyPerToken, SpendingBudget } from '../../../agent/disco/spending-budget.ts'
import { SpendingLedger, spendingTables } from '../../../agent/disco/spending-ledger.ts'
import type { BrimError } from '../../../core/base/errors.ts'
import { openDatabase } from '../../../core/store/open-database.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const hourMs = 3_600_000
const { signal } = new AbortController()

/** $1 a token at the server, 1 J a token at the small model, λ = $0.1 per J. */
function owner(settings: object, options: { price?: boolean; energy?: EnergyPerToken['source'] | undefined } = {}) {
  const dir = tempDir()
  const store = openDatabase(join(dir.path, 'spending.sqlite'), [spendingTables])
  const clock = fakeClock()
  const config = BudgetConfig.parse(settings)
  const ledger = new SpendingLedger({
    store,
    windowMs: config.windowH * hourMs,
    clock,
    wallMs: () => undefined,
    logger: silentLogger(),
  })
  const { price = true, energy = 'measured' } = options
  const warnings: object[] = []
  const budget = new SpendingBudget({
    config,
    dispatch: { constrained: 'auto', share: 0.4 },
    maxWaitMs: 60_000,
    price: price ? { prompt: 1, output: 1 } : undefined,
    energy: () => ({ prompt: 1, output: 2, source: energy }),
    exchangeRate: () => ({ dollarsPerJoule: 0.1, reason: 'battery' }),
    ledger,
    clock,
    warn: (fields) => warnings.push(fields),
  })
  const dispose = () => {
    store.close()
    dir[Symbol.dispose]()
  }
  return { budget, clock, ledger, warnings, [Symbol.dispose]: dispose }
}

const wanted = (spender: Spender, tokens: number, isBackup = false) => ({
  spender,
  estimate: { promptTokens: 0, tokens },
  isBackup,
})
const both = (tokens: number): BudgetRequest => ({
  sides: { device: wanted('slm', tokens), server: wanted('server', tokens) },
  promptTokens: 3,
  isAuto: true,
})
const atServer = (tokens: number): BudgetRequest => ({
  sides: { server: wanted('server', tokens) },
  promptTokens: 3,
  isAuto: false,
})

describe("the owner's budget", () => {
  it('knows what tokens cost', () => {
    using known = owner({})
    expect(known.budget.costs('server')).toEqual({ prompt: 1, output: 1 })
    expect(known.budget.costs('slm')).toEqual({ prompt: 0.1, output: 0.2 })
    expect(known.budget.costs('hat')).toBeUndefined()
    using unknown = owner({}, { price: false })
    expect(unknown.budget.costs('server')).toBeUndefined()
  })

  it('reports what each side of an answer has spent, and how its energy is known', async () => {
    using flops = owner({}, { price: false, energy: 'flops' })
    const answer = await flops.budget.admit(both(5), signal)
    expect(answer.costOf('server')).toEqual({ promptTokens: 0, tokens: 0, dollars: 0 })
    answer.spent('device', { promptTokens: 10, tokens: 0 })
    answer.spent('device', { promptTokens: 0, tokens: 5 })
    answer.spent('server', { promptTokens: 10, tokens: 1 })
    expect(answer.costOf('device')).toEqual({ promptTokens: 10, tokens: 5, dollars: 2, joules: 20, energy: 'flops' })
    expect(answer.costOf('server')).toEqual({ promptTokens: 10, tokens: 1, dollars: null })
    answer.end()
    expect(flops.ledger.spent('slm')).toEqual({ promptTokens: 10, autoPromptTokens: 10, tokens: 5, dollars: 2, joules: 20 })
    expect(flops.ledger.spent('requests')).toMatchObject({ promptTokens: 3, autoPromptTokens: 3 })
    const migrated = await flops.budget.admit(both(5), signal)
    migrated.spent('server', { promptTokens: 3, tokens: 1 })
    migrated.spent('device', { promptTokens: 4, tokens: 4 })
    migrated.end()
    // What migrates is not among the prompts that the share limits.
    expect(flops.ledger.spent('slm')).toMatchObject({ promptTokens: 14, autoPromptTokens: 10 })
    const alone = await flops.budget.admit(atServer(1), signal)
    expect(alone.costOf('device')).toEqual({ promptTokens: 0, tokens: 0, dollars: 0 })
    alone.end()
  })

  it('leaves out a side whose budget is exhausted, and frees what was reserved and not spent', async () => {
    using limited = owner({ dollars: 10, joules: 100 })
    const first = await limited.budget.admit(both(8), signal)
    expect(first.sides).toEqual(['device', 'server'])
    const deviceOnly = await limited.budget.admit(both(8), signal)
    expect(deviceOnly).toMatchObject({
      sides: ['device'],
      exhausted: expect.stringContaining('the server has spent $0 of $10, $8 reserved'),
    })
    expect(limited.warnings).toEqual([{ reason: deviceOnly.exhausted }])
    first.spent('server', { promptTokens: 0, tokens: 2 })
    first.end()
    first.end()
    expect((await limited.budget.admit(both(8), signal)).sides).toEqual(['device', 'server'])
  })

  it('reserves more for an answer that costs more than was expected', async () => {
    using limited = owner({ dollars: 100 })
    const answer = await limited.budget.admit(atServer(10), signal)
    for (let tokens = 0; tokens < 60; tokens++) answer.spent('server', { promptTokens: 0, tokens: 1 })
    expect(limited.ledger.reserved('server').dollars).toBeGreaterThanOrEqual(60)
    await expect(limited.budget.admit(atServer(41), signal)).rejects.toThrow('exhausted')
    answer.end()
    expect(limited.ledger.spent('server').dollars).toBe(60)
  })

  it('refuses where the other side cannot answer either, and says when to retry', async () => {
    using limited = owner({ dollars: 10 })
    const answer = await limited.budget.admit(atServer(10), signal)
    answer.spent('server', { promptTokens: 0, tokens: 10 })
    answer.end()
    await limited.clock.advance(hourMs)
    const error: BrimError = await limited.budget.admit(atServer(1), signal).then(Promise.reject, (reason) => reason)
    expect(error).toMatchObject({
      code: 'BUDGET_EXHAUSTED',
      message: 'the budget for 24 h is exhausted: the server has spent $10 of $10',
      hint: expect.stringContaining('--budget-dollars'),
    })
    expect(error.retryAfterMs).toBeGreaterThan(23 * hourMs)
    expect(error.retryAfterMs).toBeLessThan(24 * hourMs)
    await limited.clock.advance(error.retryAfterMs!)
    expect((await limited.budget.admit(atServer(1), signal)).sides).toEqual(['server'])
  })

  it('admits an answer that costs more than the whole budget only while nothing else is spent', async () => {
    using limited = owner({ dollars: 10, whenExhausted: 'refuse' })
    const answer = await limited.budget.admit(atServer(50), signal)
    await expect(limited.budget.admit(atServer(1), signal)).rejects.toThrow('reserved by answers in progress')
    answer.end()
    expect((await limited.budget.admit(atServer(50), signal)).sides).toEqual(['server'])
  })

  it('refuses rather than use the other side, if the owner wants that; a backup is left out', async () => {
    using limited = owner({ joules: 10, whenExhausted: 'refuse' })
    const answer = await limited.budget.admit(both(5), signal)
    await expect(limited.budget.admit(both(1), signal)).rejects.toThrow('the small model has spent 0 J of 10 J, 10 J reserved')
    const withBackup = { ...both(1), sides: { device: wanted('slm', 1, true), server: wanted('server', 1) } }
    expect((await limited.budget.admit(withBackup, signal)).sides).toEqual(['server'])
    answer.end()
  })

  it('reserves for a backup that is left alone', async () => {
    using limited = owner({ dollars: 10, joules: 10 })
    const backup = { ...both(8), sides: { device: wanted('slm', 8, true), server: wanted('server', 8) } }
    expect((await limited.budget.admit(backup, signal)).sides).toEqual(['device', 'server'])
    expect(limited.ledger.reserved('slm').joules).toBe(0)
    expect((await limited.budget.admit(backup, signal)).sides).toEqual(['device'])
    expect(limited.ledger.reserved('slm').joules).toBeGreaterThan(0)
  })

  it('lets requests wait until an answer ends, and no longer than the limit', async () => {
    using limited = owner({ dollars: 10, whenExhausted: 'wait' })
    const answer = await limited.budget.admit(atServer(10), signal)
    const waiting = limited.budget.admit(atServer(10), signal)
    const canceled = new AbortController()
    const leaving = limited.budget.admit(atServer(10), canceled.signal)
    canceled.abort(new Error('left'))
    await expect(leaving).rejects.toThrow('left')
    answer.end()
    expect((await waiting).sides).toEqual(['server'])
    const late = expect(limited.budget.admit(atServer(10), signal)).rejects.toThrow('exhausted')
    await limited.clock.advance(60_001)
    await late
  })

  it('overspends by no more than answers exceed their estimates, whatever arrives at once', async () => {
    using limited = owner({ dollars: 100, whenExhausted: 'refuse' })
    const requests = Array.from({ length: 50 }, () => limited.budget.admit(atServer(10), signal))
    const admitted = (await Promise.allSettled(requests)).flatMap((result) =>
      result.status === 'fulfilled' ? [result.value] : [],
    )
    expect(admitted).toHaveLength(10)
    for (const answer of admitted) {
      answer.spent('server', { promptTokens: 0, tokens: 11 })
      answer.end()
    }
    expect(limited.ledger.spent('server').dollars).toBe(110)
  })
})
