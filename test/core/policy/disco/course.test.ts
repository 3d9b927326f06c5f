import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CoursePlan, CourseSide } from '../../../../core/policy/disco/course-plan.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'
import { type SideScript, type Simulation, simulate } from '../../../support/course-simulation.ts'

const never = Number.POSITIVE_INFINITY
const ms = (max: number) => fc.integer({ min: 0, max })
const side = fc.record<CourseSide>({
  continues: fc.boolean(),
  pauses: fc.boolean(),
  costs: fc.option(
    fc.record({ prompt: fc.double({ min: 0, max: 1, noNaN: true }), output: fc.double({ min: 0, max: 1, noNaN: true }) }),
    {
      nil: undefined,
    },
  ),
  startMs: ms(3_000).map((value) => () => value),
})
const script = fc.record<SideScript>({
  startMs: fc.array(fc.oneof({ weight: 9, arbitrary: ms(5_000) }, fc.constant(never)), { minLength: 1, maxLength: 4 }),
  gapsMs: fc.array(ms(500), { minLength: 1, maxLength: 5 }),
  tokens: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }),
  failsAfter: fc.array(fc.oneof(fc.constant(never), fc.integer({ min: 0, max: 30 })), { minLength: 1, maxLength: 4 }),
})
const theSide = fc.constantFrom<Side>('device', 'server')
const delay = fc.oneof(fc.constant(0), ms(2_000), fc.constant(never))
const plan: fc.Arbitrary<CoursePlan> = fc
  .record({
    both: fc.record({ device: side, server: side }),
    only: fc.option(theSide, { nil: undefined, freq: 5 }),
    dispatch: fc.record({ device: delay, server: delay }),
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
      : dispatch.device + dispatch.server === never
        ? { ...dispatch, server: 0 }
        : dispatch,
    expectedRemaining: () => remaining,
  }))
const simulation: fc.Arbitrary<Simulation> = fc.record({
  plan,
  sharesTokens: fc.boolean(),
  scripts: fc.record({ device: script, server: script }),
  length: fc.integer({ min: 1, max: 80 }),
  reachable: fc.array(fc.record({ side: theSide, atMs: ms(10_000) }), { maxLength: 3 }),
})

const check = (property: (simulation: Simulation) => void) => fc.assert(fc.property(simulation, property), { numRuns: 1_500 })

describe('whatever the sides do', () => {
  it('the reader gets every token once, in order, each after the very tokens that its side went on from', () => {
    check((each) => {
      const { delivered, course, failed } = simulate(each)
      let at = 0
      for (const [index, { piece }] of delivered.entries()) {
        expect(piece.at).toBe(at)
        expect(piece.previous).toBe(delivered[index - 1]?.piece)
        at += piece.tokens
      }
      if (course.isOver && !failed) expect(at).toBe(each.length)
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
      const { course } = simulate(each)
      const answers = Object.keys(each.plan.sides).every((name) => !each.scripts[name as Side].startMs.includes(never))
      if (answers) expect(course.isOver).toBe(true)
    })
  })

  it('what sides have processed is what they were asked for and what they sent', () => {
    check((each) => {
      const { actions, course } = simulate(each)
      for (const name of ['device', 'server'] as const) {
        const prompts = actions.map(({ action }) =>
          action.kind === 'start' && action.side === name
            ? action.after.reduce((sum, { tokens }) => sum + tokens, each.plan.promptTokens)
            : 0,
        )
        expect(course.workOf(name).promptTokens).toBe(prompts.reduce((sum, tokens) => sum + tokens, 0))
      }
    })
  })
})
