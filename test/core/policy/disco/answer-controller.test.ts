import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AnswerController } from '../../../../core/policy/disco/answer-controller.ts'
import type { ControlledSide, ControllerPlan } from '../../../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'
import { type SideScript, type Simulation, simulate } from '../../../support/controller-simulation.ts'

const never = Number.POSITIVE_INFINITY
const ms = (max: number) => fc.integer({ min: 0, max })
const side = fc.record<ControlledSide>({
  continues: fc.boolean(),
  pauses: fc.boolean(),
  costs: fc.option(
    fc.record({ prompt: fc.double({ min: 0, max: 1, noNaN: true }), output: fc.double({ min: 0, max: 1, noNaN: true }) }),
    {
      nil: undefined,
    },
  ),
  startMs: ms(3_000).map((value) => () => value),
  lateMs: fc.option(fc.integer({ min: 1, max: 800 }), { nil: undefined }),
})
const script = fc.record<SideScript>({
  startMs: fc.array(fc.oneof({ weight: 9, arbitrary: ms(5_000) }, fc.constant(never)), { minLength: 1, maxLength: 4 }),
  gapsMs: fc.array(ms(500), { minLength: 1, maxLength: 5 }),
  tokens: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }),
  failsAfter: fc.array(fc.oneof(fc.constant(never), fc.integer({ min: 0, max: 30 })), { minLength: 1, maxLength: 4 }),
})
const theSide = fc.constantFrom<Side>('local', 'remote')
const delay = fc.oneof(fc.constant(0), ms(2_000), fc.constant(never))
const plan: fc.Arbitrary<Simulation['plan']> = fc
  .record({
    both: fc.record({ local: side, remote: side }),
    only: fc.option(theSide, { nil: undefined, freq: 5 }),
    dispatch: fc.record({ local: delay, remote: delay }),
    tokensPerS: fc.constantFrom(0, 5, 20),
    promptTokens: fc.integer({ min: 1, max: 50 }),
    preferred: fc.option(fc.record({ side: theSide, reason: fc.constantFrom('cost' as const, 'return' as const) }), {
      nil: undefined,
    }),
    remaining: fc.integer({ min: 0, max: 200 }),
  })
  .map(({ both, only, dispatch, remaining, ...rest }) => ({
    ...rest,
    sides: only ? { [only]: both[only] } : both,
    dispatch: only
      ? { ...dispatch, [only]: 0 }
      : dispatch.local + dispatch.remote === never
        ? { ...dispatch, remote: 0 }
        : dispatch,
    expectedRemaining: () => remaining,
  }))
const simulation: fc.Arbitrary<Simulation> = fc.record({
  plan,
  sharesTokens: fc.boolean(),
  scripts: fc.record({ local: script, remote: script }),
  length: fc.integer({ min: 1, max: 80 }),
  reachable: fc.array(fc.record({ side: theSide, atMs: ms(10_000) }), { maxLength: 3 }),
})

const check = (property: (simulation: Simulation) => void) => fc.assert(fc.property(simulation, property), { numRuns: 1_500 })

describe('whatever the sides do', () => {
  it('the reader gets every token once, in order, each after the same tokens that its side went on from', () => {
    check((each) => {
      const { delivered, controller, failed } = simulate(each)
      let at = 0
      for (const [index, { piece }] of delivered.entries()) {
        expect(piece.at).toBe(at)
        expect(piece.previous).toBe(delivered[index - 1]?.piece)
        at += piece.tokens
      }
      if (controller.isOver && !failed) expect(at).toBe(each.length)
    })
  })

  it('no token is delivered before the reader has had the time to read the one before', () => {
    check((each) => {
      const { delivered } = simulate(each)
      const { tokensPerS } = each.plan
      for (const [index, { piece, atMs }] of delivered.slice(0, -1).entries()) {
        const readMs = tokensPerS > 0 ? (piece.tokens * 1_000) / tokensPerS : 0
        expect(delivered[index + 1]!.atMs).toBeGreaterThanOrEqual(atMs + readMs - 1e-6)
      }
    })
  })

  it('one side works at most, but for the race and the hand-over', () => {
    check((each) => {
      expect(simulate(each).maxWorking).toBeLessThanOrEqual(1)
    })
  })

  it('every answer ends where some side answers', () => {
    check((each) => {
      const { controller } = simulate(each)
      const answers = Object.keys(each.plan.sides).every((name) => !each.scripts[name as Side].startMs.includes(never))
      if (answers) expect(controller.isOver).toBe(true)
    })
  })

  it('every start teaches once how long its first token took, or at least took; one that failed before teaches nothing', () => {
    check((each) => {
      const { learned, starts } = simulate(each)
      expect(learned).toEqual(starts.filter(({ kind }) => kind !== 'failed'))
    })
  })

  it('what sides have processed is what they were asked for and what they sent', () => {
    check((each) => {
      const { actions, controller } = simulate(each)
      for (const name of ['local', 'remote'] as const) {
        const prompts = actions.map(({ action }) =>
          action.kind === 'start' && action.side === name
            ? action.after.reduce((sum, { tokens }) => sum + tokens, each.plan.promptTokens)
            : 0,
        )
        expect(controller.workOf(name).promptTokens).toBe(prompts.reduce((sum, tokens) => sum + tokens, 0))
      }
    })
  })
})

const always: SideScript = { startMs: [0], gapsMs: [10], tokens: [1], failsAfter: [never] }
const sideOf = (more: Partial<ControlledSide> = {}): ControlledSide => ({
  continues: true,
  pauses: true,
  costs: undefined,
  startMs: () => 0,
  ...more,
})
const costs = (output: number, prompt = 0) => ({ costs: { prompt, output } })
/** The device begins; the server writes for less, and starts as fast as it is thought to: in 1 s, with 5 tokens/s being read. */
function toServer(
  more: { local?: Partial<ControlledSide>; remote?: Partial<ControlledSide>; plan?: Partial<ControllerPlan> } = {},
): Simulation {
  return {
    plan: {
      sides: {
        local: sideOf({ ...costs(2), ...more.local }),
        remote: sideOf({ ...costs(1), startMs: () => 1_000, ...more.remote }),
      },
      dispatch: { local: 0, remote: never },
      tokensPerS: 5,
      promptTokens: 10,
      preferred: { side: 'remote', reason: 'cost' },
      expectedRemaining: () => 100,
      ...more.plan,
    },
    sharesTokens: true,
    scripts: { local: always, remote: { ...always, startMs: [900] } },
    length: 40,
  }
}
const kindsOf = ({ actions }: ReturnType<typeof simulate>) =>
  actions.flatMap(({ action }) => ('side' in action ? [`${action.kind} ${action.side}`] : []))
const pieceOf = (at: number, more: object = {}) => ({ tokens: 1, isLast: false, border: 'word' as const, at, ...more })

describe('a migration', () => {
  it('begins when the buffer holds B tokens and what the source needs to come back, no sooner and no later', () => {
    const answer = simulate(toServer())
    // B = 5 tokens/s × (1 s + 10 ms), rounded up; the reader has the first token.
    expect(answer.controller.migrations).toEqual([
      { from: 'local', to: 'remote', reason: 'cost', afterTokens: 7, bufferTokens: 6, delayedTokens: 0, succeeded: true },
    ])
    expect(answer.controller.workOf('local').tokens).toBe(7)
    expect(answer.controller.workOf('remote')).toEqual({ promptTokens: 17, tokens: 33 })
    expect(kindsOf(answer)).toEqual(['start local', 'pause local', 'start remote', 'stop local'])
    expect(answer.controller.stalls).toBe(0)
  })

  it('happens only where it pays (Eq. 4, 5)', () => {
    const migrationsWith = (prompt: number, remaining: number) => {
      const plan = { expectedRemaining: () => remaining }
      return simulate(toServer({ remote: costs(1, prompt), plan })).controller.migrations.length
    }
    // 1 saved per token; overhead at 7 tokens of the answer: 17 tokens of the prompt.
    expect([migrationsWith(1, 17), migrationsWith(1, 18), migrationsWith(0, 0)]).toEqual([0, 1, 0])
    const unknown = simulate(toServer({ local: { costs: undefined } }))
    expect(unknown.controller.migrations).toEqual([])
    // By what is still to come: 10 of 17 tokens, once the buffer is full.
    const short = { expectedRemaining: (tokens: number) => 17 - tokens }
    expect(simulate(toServer({ remote: costs(1, 0.7), plan: short })).controller.migrations).toEqual([])
  })

  it('does not wait for a buffer where nothing is paced', () => {
    const { controller } = simulate(toServer({ plan: { tokensPerS: 0 } }))
    expect(controller.migrations).toMatchObject([{ afterTokens: 1, bufferTokens: 1, succeeded: true }])
    // Where sides share no tokens, it waits for the next word.
    const late = { tokensPerS: 0, expectedRemaining: (tokens: number) => (tokens < 2 ? 0 : 100) }
    const { controller: words } = simulate({ ...toServer({ plan: late }), sharesTokens: false })
    expect(words.migrations).toMatchObject([{ afterTokens: 3, succeeded: true }])
  })

  it('is never begun to a side that is busy, or that cannot continue', () => {
    for (const tokensPerS of [0, 5])
      for (const remote of [{ startMs: () => never }, { continues: false }])
        expect(simulate(toServer({ remote, plan: { tokensPerS } })).controller.migrations).toEqual([])
  })

  it.each([
    ['pauses', { pauses: true }, ['pause local', 'start remote', 'stop remote', 'resume local']],
    ['goes on anew', { pauses: false }, ['stop local', 'start remote', 'stop remote', 'start local']],
    ['can do neither', { pauses: false, continues: false }, ['start remote', 'stop remote']],
  ])('to a target that is too slow falls back to a source that %s, unseen, and is tried once more', (_, local, expected) => {
    const slow = { ...toServer({ local }), scripts: { local: always, remote: { ...always, startMs: [never] } }, length: 200 }
    const answer = simulate(slow)
    expect(answer.controller.migrations.map(({ succeeded }) => succeeded)).toEqual(
      [false, false].slice(0, answer.controller.migrations.length),
    )
    expect(kindsOf(answer).slice(1, 1 + expected.length)).toEqual(expected)
    expect(answer.delivered).toHaveLength(200)
    expect(answer.controller.stalls).toBe(0)
    if (local.pauses) expect(answer.controller.migrations).toHaveLength(2)
  })

  it('whose target fails at once falls back to the source', () => {
    const failing = toServer()
    const answer = simulate({ ...failing, scripts: { ...failing.scripts, remote: { ...always, failsAfter: [0, never] } } })
    expect(answer.controller.migrations.map(({ succeeded }) => succeeded)).toEqual([false, true])
    const [first, second] = answer.controller.migrations
    expect(second!.afterTokens).toBe(first!.afterTokens + 16)
    expect(answer.controller.stalls).toBe(0)
    // A device that is hardly faster than the reader: the second attempt waits for twice the buffer.
    const slow = simulate({
      ...failing,
      scripts: { local: { ...always, gapsMs: [150] }, remote: { ...always, failsAfter: [0, never] } },
      length: 100,
    })
    // 5 tokens/s × (1 s + 150 ms), rounded up.
    expect(slow.controller.migrations.map(({ bufferTokens }) => bufferTokens)).toEqual([6, 12])
  })

  it('ends with the source that finishes the answer meanwhile', () => {
    const each = toServer({ local: { pauses: false, continues: false } })
    const answer = simulate({ ...each, scripts: { local: always, remote: { ...always, startMs: [never] } }, length: 12 })
    expect(answer.controller.migrations).toMatchObject([{ succeeded: false }])
    expect(answer.actions).toContainEqual({ action: { kind: 'stop', side: 'remote' }, atMs: 110 })
    expect(answer.delivered).toHaveLength(12)
  })

  it('is given up after twice the estimate where no buffer sets the time', () => {
    const each = toServer({ plan: { tokensPerS: 0 } })
    const answer = simulate({ ...each, scripts: { local: always, remote: { ...always, startMs: [never] } } })
    expect(answer.actions).toContainEqual({ action: { kind: 'stop', side: 'remote' }, atMs: 2_000 })
    expect(answer.delivered).toHaveLength(40)
  })

  it('is never begun to a side that has failed in the race', () => {
    const each = toServer({ plan: { dispatch: { local: 0, remote: 0 } } })
    const scripts = { local: { ...always, startMs: [20] }, remote: { ...always, failsAfter: [0] } }
    expect(simulate({ ...each, scripts }).controller.migrations).toEqual([])
  })

  it('counts the tokens that came too late because of it', () => {
    // No other side goes on: the server starts 1 s after the buffer of 1 token is read, then catches up.
    const lost = toServer({ plan: { preferred: undefined } })
    const scripts = {
      local: { ...always, failsAfter: [2] },
      remote: { ...always, startMs: [1_400], gapsMs: [100] },
    }
    const { controller } = simulate({ ...lost, scripts })
    // Due at 400, 600, … ms; received at 1,410, 1,510, …: the eleventh at 2,410 is due at 2,400, the twelfth at 2,510 at 2,600.
    expect(controller.migrations).toMatchObject([{ reason: 'failure', afterTokens: 2, bufferTokens: 1, delayedTokens: 11 }])
    expect([controller.stalls, Math.round(controller.stalledMs)]).toEqual([1, 1_020])
  })

  it('ends at the end of a word where sides share no tokens, and what the reader has not seen is made again', () => {
    const { controller, delivered } = simulate({ ...toServer(), sharesTokens: false })
    const [migration] = controller.migrations
    expect(migration).toMatchObject({ afterTokens: 9, bufferTokens: 8, succeeded: true })
    expect(delivered.map(({ piece }) => piece.at)).toEqual(Array.from({ length: 40 }, (_, at) => at))
    expect(controller.workOf('local').tokens).toBe(10)
  })

  it('back to a side that has failed begins once that is reachable', () => {
    const failing = toServer({
      plan: { dispatch: { local: never, remote: 0 }, preferred: { side: 'remote', reason: 'return' } },
    })
    const answer = simulate({
      ...failing,
      scripts: { ...failing.scripts, remote: { ...always, failsAfter: [3, never] } },
      reachable: [{ side: 'remote', atMs: 200 }],
    })
    expect(answer.controller.migrations).toMatchObject([
      { from: 'remote', to: 'local', reason: 'failure', afterTokens: 3, succeeded: true },
      { from: 'local', to: 'remote', reason: 'return', succeeded: true },
    ])
    expect(answer.controller.winner).toBe('remote')
  })
})

describe('a side that breaks off', () => {
  const breaking = (remote: Partial<ControlledSide>, failsAfter: readonly number[], reachable: Simulation['reachable'] = []) => {
    const each = toServer({ remote, plan: { preferred: undefined } })
    const scripts = { local: { ...always, failsAfter: [5] }, remote: { ...always, startMs: [500], failsAfter } }
    return simulate({ ...each, scripts, reachable })
  }

  it('fails the answer where the other one cannot go on, after all that was written', () => {
    for (const answer of [breaking({ continues: false }, [never]), breaking({}, [0])]) {
      expect(answer.failed).toBe(true)
      expect(answer.delivered).toHaveLength(5)
      expect(answer.actions.at(-1)).toEqual({ action: { kind: 'fail' }, atMs: 800 })
    }
  })

  it('while the other one is to take over leaves it the answer, however late that starts', () => {
    const each = toServer({ local: { pauses: false, continues: false } })
    const scripts = { local: { ...always, failsAfter: [9] }, remote: { ...always, startMs: [5_000] } }
    const answer = simulate({ ...each, scripts })
    expect(answer.controller.migrations).toMatchObject([{ from: 'local', to: 'remote', afterTokens: 6, succeeded: true }])
    expect([answer.delivered.length, answer.controller.stalls]).toEqual([40, 1])
  })

  it('goes on itself where the other one fails, too, and it is reachable again', () => {
    const answer = breaking({}, [0], [{ side: 'local', atMs: 300 }])
    expect(kindsOf(answer)).toEqual(['start local', 'start remote', 'start local'])
    expect(answer.controller.migrations).toMatchObject([
      { to: 'remote', reason: 'failure', succeeded: false },
      { to: 'local', reason: 'failure', succeeded: true },
    ])
  })
})

describe('the race', () => {
  it('starts each side at its time, and none once there is a token', () => {
    const race = (firstMs: number) => {
      const each = toServer({ plan: { dispatch: { local: 300, remote: 0 }, preferred: undefined } })
      return kindsOf(simulate({ ...each, scripts: { local: always, remote: { ...always, startMs: [firstMs] } } }))
    }
    expect(race(299)).toEqual(['start remote'])
    expect(race(5_000)).toEqual(['start remote', 'start local', 'stop remote'])
  })

  it('is decided by the first token: what the loser sends later is no part of the answer', () => {
    const { plan } = toServer({ plan: { dispatch: { local: 0, remote: 0 }, preferred: undefined } })
    const learn = { started() {}, firstToken() {}, canceled() {}, gap() {}, failed() {} }
    const controller = new AnswerController<ReturnType<typeof pieceOf>>({ ...plan, learn }, true)
    controller.handle({ kind: 'begin' }, 0)
    const received = (side: Side, at: number, nowMs: number) =>
      controller.handle({ kind: 'received', side, piece: pieceOf(at) }, nowMs)
    expect(received('remote', 0, 10)).toMatchObject([{ kind: 'stop', side: 'local' }, { kind: 'deliver' }])
    expect(received('local', 0, 11)).toEqual([])
    expect([controller.winner, controller.tokens, controller.workOf('local').tokens]).toEqual(['remote', 1, 1])
  })
})
