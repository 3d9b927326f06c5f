import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AnswerController } from '../../../../core/policy/disco/answer-controller.ts'
import type { ControlledSide } from '../../../../core/policy/disco/controller-plan.ts'
import { createGaps } from '../../../../core/policy/disco/estimates.ts'
import { lateAfterMs } from '../../../../core/policy/disco/silent-source.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'
import { type SideScript, simulate } from '../../../support/controller-simulation.ts'

const never = Number.POSITIVE_INFINITY
const sideOf = (startMs: number, more: Partial<ControlledSide> = {}): ControlledSide => ({
  continues: true,
  pauses: false,
  costs: undefined,
  startMs: () => startMs,
  ...more,
})
const script = (startMs: number, gapsMs: readonly number[]): SideScript => ({
  startMs: [startMs],
  gapsMs,
  tokens: [1],
  failsAfter: [never],
})

interface Case {
  readonly lateMs: number
  readonly gapMs: number
  readonly sent: number
  readonly localMs: number
  readonly tokensPerS: number
  readonly sharesTokens: boolean
}

/** The server sends some tokens, then pauses; the device could go on. @param pauseMs never: the server sends nothing more */
function answerOf({ lateMs, gapMs, sent, localMs, tokensPerS, sharesTokens }: Case, pauseMs = never, local = sideOf(localMs)) {
  const gapsMs = Array.from({ length: 60 }, (_, at) => (at === sent ? pauseMs : gapMs))
  return simulate({
    plan: {
      sides: { local, remote: sideOf(100, { lateMs }) },
      dispatch: { local: never, remote: 0 },
      tokensPerS,
      promptTokens: 10,
      expectedRemaining: () => 100,
    },
    sharesTokens,
    scripts: { local: script(localMs, [5]), remote: script(100, gapsMs) },
    length: 60,
  })
}

const cases = fc.record<Case>({
  lateMs: fc.integer({ min: 100, max: 900 }),
  gapMs: fc.integer({ min: 1, max: 99 }),
  sent: fc.integer({ min: 1, max: 50 }),
  localMs: fc.integer({ min: 0, max: 900 }),
  tokensPerS: fc.constantFrom(0, 5, 50),
  sharesTokens: fc.boolean(),
})
const example: Case = { lateMs: 500, gapMs: 20, sent: 5, localMs: 200, tokensPerS: 0, sharesTokens: true }

describe('a server that falls silent in the middle of an answer', () => {
  it('is replaced: the reader gets every token once, and waits no longer than the gap that is late and the start', () => {
    fc.assert(
      fc.property(cases, (each) => {
        const { delivered, controller } = answerOf(each)
        expect(delivered.map(({ piece }) => piece.at)).toEqual(Array.from({ length: 60 }, (_, at) => at))
        for (const [at, { piece }] of delivered.entries()) expect(piece.previous).toBe(delivered[at - 1]?.piece)
        expect(controller.migrations).toMatchObject([{ from: 'remote', to: 'local', reason: 'silence', succeeded: true }])
        const readMs = each.tokensPerS > 0 ? 1_000 / each.tokensPerS : 0
        for (const [at, { atMs }] of delivered.entries()) {
          const before = delivered[at - 1]?.atMs ?? atMs
          // Up to three tokens, to the end of a word, are made again where text is handed over.
          expect(atMs - before).toBeLessThanOrEqual(Math.max(readMs, each.lateMs + each.localMs + 3 * each.gapMs) + 1e-6)
        }
      }),
      { numRuns: 1_000 },
    )
  })

  it('is not asked for the rest again', () => {
    const { actions } = answerOf(example)
    const starts = actions.filter(({ action }) => action.kind === 'start')
    expect(starts.map(({ action, atMs }) => ['side' in action && action.side, atMs])).toEqual([
      ['remote', 0],
      // The fifth token came at 180 ms.
      ['local', 680],
    ])
    expect(actions).toContainEqual({ action: { kind: 'stop', side: 'remote' }, atMs: 880 })
  })

  it('is replaced only when the reader would wait for it', () => {
    const { actions } = answerOf({ ...example, sent: 20, tokensPerS: 10 })
    const [, local] = actions.filter(({ action }) => action.kind === 'start')
    // The reader has read 20 tokens 2 s after the first, and the device starts in 200 ms.
    expect(local?.atMs).toBe(100 + 2_000 - 200)
  })

  it('goes on if it sends something before the other side does', () => {
    fc.assert(
      fc.property(cases, fc.integer({ min: 1, max: 2_000 }), (each, pauseMs) => {
        const { delivered, controller } = answerOf(each, pauseMs)
        expect(delivered.map(({ piece }) => piece.at)).toEqual(Array.from({ length: 60 }, (_, at) => at))
        const isEarly = pauseMs < each.lateMs + each.localMs
        if (isEarly) expect(controller.migrations.every(({ succeeded }) => !succeeded)).toBe(true)
      }),
      { numRuns: 300 },
    )
    const { controller, actions } = answerOf(example, 600)
    expect(controller.migrations).toMatchObject([{ reason: 'silence', succeeded: false }])
    expect(actions.at(-1)).toMatchObject({ action: { kind: 'deliver' } })
  })

  it('is waited for where nothing else can go on, or only later', () => {
    expect(answerOf(example, never, sideOf(0, { continues: false })).controller.migrations).toEqual([])
    let looks = 0
    const busy = { ...sideOf(0), startMs: () => (looks++ < 3 ? never : 200) }
    expect(answerOf(example, never, busy).controller.migrations).toMatchObject([{ reason: 'silence', succeeded: true }])
  })

  it('is not late while its reader does not take what it has sent', () => {
    const gaps: number[] = []
    const learn = { started() {}, firstToken() {}, canceled() {}, gap: (_: Side, ms: number) => void gaps.push(ms), failed() {} }
    const sides = { local: sideOf(0), remote: sideOf(100, { lateMs: 500 }) }
    const plan = {
      sides,
      dispatch: { local: never, remote: 0 },
      tokensPerS: 0,
      promptTokens: 1,
      expectedRemaining: () => 9,
      learn,
    }
    const controller = new AnswerController(plan, true)
    controller.handle({ kind: 'begin' }, 0)
    controller.handle({ kind: 'received', side: 'remote', piece: { tokens: 1, isLast: false, border: 'word' } }, 100)
    for (let nowMs = 600; nowMs < 5_000; nowMs += 500)
      expect(controller.handle({ kind: 'tick', isHeld: true }, nowMs)).toEqual([])
    expect(controller.handle({ kind: 'tick' }, 5_050)).toEqual([])
    expect(controller.handle({ kind: 'tick' }, 5_100)).toMatchObject([{ kind: 'start', side: 'local' }])
    // Its silence is no gap: else the next one would be waited for longer, and so on.
    controller.handle({ kind: 'received', side: 'local', piece: { tokens: 1, isLast: true, border: 'word' } }, 5_200)
    expect([controller.isOver, gaps]).toEqual([true, []])
  })
})

it('a gap is late beyond the longest of a hundred, and not before half a second', () => {
  const gapsMs = createGaps()
  expect(lateAfterMs(gapsMs)).toBe(500)
  for (let at = 0; at < 100; at++) gapsMs.record(20)
  expect(lateAfterMs(gapsMs)).toBe(500)
  for (let at = 0; at < 100; at++) gapsMs.record(at % 20 === 0 ? 2_000 : 20)
  expect(lateAfterMs(gapsMs)).toBeCloseTo(3_000, -1)
})
