import Database from 'better-sqlite3'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BudgetAdmission, BudgetedRun, BudgetRequest } from '../../../agent/disco/budget.ts'
import { BudgetConfig } from '../../../agent/disco/config.ts'
import { type EnergyPerToken, SpendingBudget } from '../../../agent/disco/spending-budget.ts'
import { SpendingLedger, spendingTables } from '../../../agent/disco/spending-ledger.ts'
import type { BrimError } from '../../../core/kit/base/errors.ts'
import type { RunRequest } from '../../../core/policy/disco/side-account.ts'
import type { Spender } from '../../../core/policy/disco/spending-book.ts'
import type { Side } from '../../../core/policy/disco/state.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { spendingOf } from '../../support/spending-of.ts'

const hourMs = 3_600_000
const { signal } = new AbortController()

/** $1 a token at the server, 1 J a token at the small model, λ = $0.1 per J. */
function owner(settings: object, options: { price?: boolean; energy?: EnergyPerToken['source'] | undefined } = {}) {
  const store = new Database(':memory:')
  store.exec(spendingTables)
  const clock = fakeClock()
  const config = BudgetConfig.parse(settings)
  const ledger = new SpendingLedger({
    store,
    windowMs: config.windowH * hourMs,
    clocks: () => ({ wallMs: undefined, boot: 'first', upMs: clock.nowMs() }),
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
  return { budget, clock, ledger: spendingOf(ledger), warnings, [Symbol.dispose]: () => void store.close() }
}

const wanted = (spender: Spender, tokens: number, isBackup = false) => ({
  spender,
  estimate: { promptTokens: 0, tokens },
  limits: { promptTokens: 0, tokens },
  isBackup,
})
/** A start of a side. */
const run = (promptTokens: number, tokens?: number, isBilled = false) => ({
  promptTokens,
  limits: { promptTokens, tokens },
  isBilled,
})
const both = (tokens: number): BudgetRequest => ({
  sides: { local: wanted('slm', tokens), remote: wanted('server', tokens) },
  promptTokens: 3,
  isAuto: true,
})
const atServer = (tokens: number): BudgetRequest => ({
  sides: { remote: wanted('server', tokens) },
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
    expect(answer.costOf('remote')).toEqual({ promptTokens: 0, tokens: 0, dollars: 0 })
    const onDevice = answer.start('local', run(10))
    const cloud = answer.start('remote', run(10))
    onDevice.arrived(5)
    cloud.arrived(1)
    expect(answer.costOf('local')).toEqual({ promptTokens: 10, tokens: 5, dollars: 2, joules: 20, energy: 'flops' })
    expect(answer.costOf('remote')).toEqual({ promptTokens: 10, tokens: 1, dollars: null })
    answer.end()
    expect(flops.ledger.spent('slm')).toEqual({ promptTokens: 10, autoPromptTokens: 10, tokens: 5, dollars: 2, joules: 20 })
    expect(flops.ledger.spent('requests')).toMatchObject({ promptTokens: 3, autoPromptTokens: 3 })
    const migrated = await flops.budget.admit(both(5), signal)
    migrated.start('remote', run(3)).arrived(1)
    migrated.start('local', run(4)).arrived(4)
    migrated.end()
    // What migrates is not among the prompts that the share limits.
    expect(flops.ledger.spent('slm')).toMatchObject({ promptTokens: 14, autoPromptTokens: 10 })
    const alone = await flops.budget.admit(atServer(1), signal)
    expect(alone.costOf('local')).toEqual({ promptTokens: 0, tokens: 0, dollars: 0 })
    alone.end()
  })

  it('leaves out a side whose budget is exhausted, and frees what was reserved and not spent', async () => {
    using limited = owner({ dollars: 10, joules: 100 })
    const first = await limited.budget.admit(both(8), signal)
    expect(first.sides).toEqual(['local', 'remote'])
    const deviceOnly = await limited.budget.admit(both(8), signal)
    expect(deviceOnly).toMatchObject({
      sides: ['local'],
      exhausted: expect.stringContaining('the server has spent $0 of $10, $8 reserved'),
    })
    expect(limited.warnings).toEqual([{ reason: deviceOnly.exhausted }])
    first.start('remote', run(0, 8)).arrived(2)
    first.end()
    first.end()
    expect((await limited.budget.admit(both(8), signal)).sides).toEqual(['local', 'remote'])
  })

  it('reserves all that a start may cost, also the second of one answer, and none that the budget does not allow', async () => {
    using limited = owner({ dollars: 100 })
    const answer = await limited.budget.admit(atServer(10), signal)
    expect(limited.ledger.reserved('server').dollars).toBe(10)
    answer.start('remote', run(5, 20)).arrived(3)
    expect(limited.ledger.reserved('server').dollars).toBe(25)
    answer.start('remote', run(8, 30)).arrived(30)
    expect(limited.ledger.reserved('server').dollars).toBe(63)
    await expect(limited.budget.admit(atServer(38), signal)).rejects.toThrow('exhausted')
    expect(() => answer.start('remote', run(40, 1))).toThrow('63 reserved by answers in progress; this answer may take $41')
    expect(answer.start('remote', run(30, 20)).maxTokens).toBe(7)
    expect(answer.exhausted).toBe('the budget for 24 h allows 7 tokens of this answer: the server has spent $0 of $100')
    answer.end()
    expect(limited.ledger.spent('server').dollars).toBe(5 + 3 + 8 + 30 + 30)
  })

  it('counts a paid server by its own count, or by all that it was asked for where it does not tell', async () => {
    using limited = owner({ dollars: 1_000 })
    const cost = async (end: (of: BudgetedRun) => void) => {
      const before = limited.ledger.spent('server').dollars
      const answer = await limited.budget.admit(atServer(10), signal)
      end(answer.start('remote', { promptTokens: 5, limits: { promptTokens: 40, tokens: 20 }, isBilled: true }))
      answer.end()
      return limited.ledger.spent('server').dollars - before
    }
    const arriving = (of: BudgetedRun) => {
      of.sent()
      of.arrived(3)
    }
    expect(await cost(() => {})).toBe(0)
    expect(await cost((of) => of.sent())).toBe(60)
    expect(await cost((of) => [of.sent(), of.refused()])).toBe(0)
    expect(await cost((of) => [of.sent(), of.refused(), of.sent()])).toBe(60)
    // Left, or broken off: the server may go on.
    expect(await cost(arriving)).toBe(60)
    expect(await cost((of) => [arriving(of), of.completed(undefined)])).toBe(60)
    expect(await cost((of) => [arriving(of), of.completed(11)])).toBe(14)
    expect(await cost((of) => [arriving(of), of.arrived(2 ** 50), of.completed(2 ** 50)])).toBe(60)
  })

  it('refuses where the other side cannot answer either, and says when to retry', async () => {
    using limited = owner({ dollars: 10 })
    const answer = await limited.budget.admit(atServer(10), signal)
    answer.start('remote', run(0, 10)).arrived(10)
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
    expect((await limited.budget.admit(atServer(1), signal)).sides).toEqual(['remote'])
  })

  it('shortens an answer that costs more than the whole budget, and admits it only while nothing else is spent', async () => {
    using limited = owner({ dollars: 10, whenExhausted: 'refuse' })
    const answer = await limited.budget.admit(atServer(50), signal)
    expect(answer.start('remote', run(3, 50)).maxTokens).toBe(7)
    await expect(limited.budget.admit(atServer(1), signal)).rejects.toThrow('reserved by answers in progress')
    answer.end()
    await expect(limited.budget.admit(atServer(50), signal)).rejects.toThrow('has spent $3 of $10; this answer may take $50')
  })

  it('does not admit an answer whose prompt alone costs more than the budget', async () => {
    using limited = owner({ dollars: 10 })
    const { sides } = atServer(1)
    const limits = { promptTokens: 10, tokens: 1 }
    await expect(
      limited.budget.admit({ ...atServer(1), sides: { remote: { ...sides.remote!, limits } } }, signal),
    ).rejects.toThrow('has spent $0 of $10; this answer may take $11')
  })

  it('refuses rather than use the other side, if the owner wants that; a backup is left out', async () => {
    using limited = owner({ joules: 10, whenExhausted: 'refuse' })
    const answer = await limited.budget.admit(both(5), signal)
    await expect(limited.budget.admit(both(1), signal)).rejects.toThrow('the small model has spent 0 J of 10 J, 10 J reserved')
    const withBackup = { ...both(1), sides: { local: wanted('slm', 1, true), remote: wanted('server', 1) } }
    expect((await limited.budget.admit(withBackup, signal)).sides).toEqual(['remote'])
    answer.end()
  })

  it('reserves for a backup that is left alone', async () => {
    using limited = owner({ dollars: 10, joules: 10 })
    const backup = { ...both(8), sides: { local: wanted('slm', 8, true), remote: wanted('server', 8) } }
    expect((await limited.budget.admit(backup, signal)).sides).toEqual(['local', 'remote'])
    expect(limited.ledger.reserved('slm').joules).toBe(0)
    expect((await limited.budget.admit(backup, signal)).sides).toEqual(['local'])
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
    expect((await waiting).sides).toEqual(['remote'])
    const late = expect(limited.budget.admit(atServer(10), signal)).rejects.toThrow('exhausted')
    await limited.clock.advance(60_001)
    await late
  })

  it('is never exceeded, whatever arrives, in whatever order and how many at once', async () => {
    const max = 1_000
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('ask' as const),
        side: fc.constantFrom<Spender>('server', 'slm'),
        prompt: fc.nat(60),
        hidden: fc.nat(60),
        tokens: fc.option(fc.integer({ min: 1, max: 400 }), { nil: undefined }),
        expected: fc.nat(400),
        isBackup: fc.boolean(),
      }),
      fc.record({
        kind: fc.constantFrom(
          'again' as const,
          'sent' as const,
          'refused' as const,
          'arrive' as const,
          'complete' as const,
          'leave' as const,
        ),
        of: fc.nat(20),
        tokens: fc.oneof(fc.nat(300), fc.constant(2 ** 50)),
        tells: fc.boolean(),
      }),
      fc.record({ kind: fc.constant('end' as const), of: fc.nat(20) }),
      fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(3 * hourMs) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        using limited = owner({ dollars: max, joules: max, whenExhausted: 'refuse' })
        const open: {
          readonly answer: BudgetAdmission
          readonly side: Side
          readonly asked: RunRequest
          readonly runs: TrueRun[]
        }[] = []
        /** What an honest server has been paid for answers that have ended, and by when. */
        const bills: { readonly atMs: number; readonly dollars: number }[] = []
        const start = (of: (typeof open)[number]) => {
          try {
            of.runs.push({ run: of.answer.start(of.side, of.asked), produced: 0, sent: false, isOver: false })
          } catch (error) {
            expect(error).toMatchObject({ code: 'BUDGET_EXHAUSTED' })
          }
        }
        const bound = () => {
          for (const [account, figure] of [
            ['server', 'dollars'],
            ['slm', 'joules'],
          ] as const)
            expect(limited.ledger.spent(account)[figure] + limited.ledger.reserved(account)[figure]).toBeLessThanOrEqual(max)
        }
        for (const one of steps) {
          const of = 'of' in one ? open[one.of % Math.max(1, open.length)] : undefined
          const last = of?.runs.at(-1)
          if (one.kind === 'wait') await limited.clock.advance(one.ms)
          else if (one.kind === 'ask') {
            const { side: spender, prompt, hidden, tokens, expected, isBackup } = one
            const limits = { promptTokens: prompt + hidden, tokens }
            const estimate = { promptTokens: prompt, tokens: expected }
            const side = spender === 'slm' ? 'local' : 'remote'
            const sides = { [side]: { spender, estimate, limits, isBackup } }
            const answer = await limited.budget.admit({ sides, promptTokens: prompt, isAuto: false }, signal).catch(() => {})
            if (!answer) continue
            const isBilled = spender === 'server'
            open.push({ answer, side, asked: { promptTokens: prompt, limits, isBilled }, runs: [] })
            start(open.at(-1)!)
          } else if (of && one.kind === 'again') start(of)
          else if (of && one.kind === 'end') {
            of.answer.end()
            open.splice(open.indexOf(of), 1)
            if (of.side === 'remote')
              for (const { sent, run, produced, told } of of.runs)
                if (sent)
                  bills.push({
                    atMs: limited.clock.nowMs(),
                    // One that broke off may write on to its limit, and its prompt is as long as it can be.
                    dollars: told ?? of.asked.limits.promptTokens + Math.max(produced, run.maxTokens!),
                  })
          } else if (last && !last.isOver && 'tells' in one) {
            const { run } = last
            if (one.kind === 'sent') {
              run.sent()
              last.sent = true
            } else if (one.kind === 'refused' && last.produced === 0) {
              run.refused()
              last.sent = false
            } else if (one.kind === 'arrive' && (last.sent || of!.side === 'local')) {
              run.arrived(one.tokens)
              last.produced = Math.min(run.maxTokens!, last.produced + one.tokens)
            } else if (one.kind === 'complete' && last.sent) {
              last.isOver = true
              run.completed(one.tells ? of!.asked.promptTokens : undefined)
              if (one.tells) last.told = of!.asked.promptTokens + last.produced
            } else if (one.kind === 'leave' && last.sent) {
              last.isOver = true
              const { promptTokens, limits } = of!.asked
              run.left(one.tells ? promptTokens : undefined, one.tells ? last.produced + one.tokens : undefined)
              // What has not come by then is on its way; of a server that never told, it may be all.
              const written = one.tells ? Math.min(run.maxTokens!, last.produced + one.tokens) : run.maxTokens!
              last.told = (one.tells ? promptTokens : limits.promptTokens) + written
            }
          }
          bound()
          const windowed = bills.filter(({ atMs }) => atMs > limited.clock.nowMs() - 24 * hourMs)
          expect(windowed.reduce((sum, { dollars }) => sum + dollars, 0)).toBeLessThanOrEqual(
            limited.ledger.spent('server').dollars,
          )
        }
      }),
      { numRuns: 150 },
    )
  })
})

interface TrueRun {
  readonly run: BudgetedRun
  produced: number
  sent: boolean
  isOver: boolean
  /** What its server bills and tells. */
  told?: number
}
