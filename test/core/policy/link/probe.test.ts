import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextProbeStep, type ProbeState } from '../../../../core/policy/link/probe.ts'

const limits = { quietMs: 5, staleMs: 900, everyMs: 300 }
const time = fc.integer({ min: 0, max: 2_000 })
const anyState = fc.record({
  sessions: fc.integer({ min: 0, max: 2 }),
  sentMs: time,
  measuredMs: fc.option(time, { nil: undefined }),
  probedMs: fc.option(time, { nil: undefined }),
})
const idle: ProbeState = { sessions: 0, sentMs: 0, measuredMs: undefined, probedMs: undefined }

describe('a probe of a link', () => {
  it('is due when the link is quiet, its rates are unknown or old, and the last probe is long ago', () => {
    fc.assert(
      fc.property(anyState, time, (state, nowMs) => {
        const { sessions, sentMs, measuredMs, probedMs } = state
        const due =
          sessions === 0 &&
          nowMs - sentMs >= limits.quietMs &&
          (measuredMs === undefined || nowMs - measuredMs >= limits.staleMs) &&
          (probedMs === undefined || nowMs - probedMs >= limits.everyMs)
        expect(nextProbeStep(state, limits, nowMs).kind).toBe(due ? 'probe' : 'wait')
      }),
      {
        numRuns: 1_000,
        examples: [
          [idle, 5],
          [idle, 4],
          [{ ...idle, probedMs: 0 }, 300],
          [{ ...idle, measuredMs: 0 }, 900],
        ],
      },
    )
  })

  it('is due at the end of the announced wait if the link stays idle', () => {
    fc.assert(
      fc.property(anyState, time, (state, nowMs) => {
        const step = nextProbeStep(state, limits, nowMs)
        if (step.kind === 'probe') return
        expect(step.ms).toBeGreaterThan(0)
        if (state.sessions > 0) return
        expect(nextProbeStep(state, limits, nowMs + step.ms)).toEqual({ kind: 'probe' })
        expect(nextProbeStep(state, limits, nowMs + step.ms - 1).kind).toBe('wait')
      }),
    )
  })

  it('runs at most once per interval, whether it succeeds or not', () => {
    const lives = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 50 }), sessions: fc.boolean(), answered: fc.boolean() }), {
      maxLength: 300,
    })
    fc.assert(
      fc.property(lives, (life) => {
        let state = idle
        let nowMs = 0
        const probes: number[] = []
        for (const { ms, sessions, answered } of life) {
          nowMs += ms
          const step = nextProbeStep({ ...state, sessions: sessions ? 1 : 0 }, limits, nowMs)
          if (step.kind === 'wait') continue
          expect(sessions).toBe(false)
          probes.push(nowMs)
          state = { ...state, probedMs: nowMs, sentMs: nowMs, measuredMs: answered ? nowMs : state.measuredMs }
        }
        for (const [at, probedMs] of probes.slice(1).entries())
          expect(probedMs - probes[at]!).toBeGreaterThanOrEqual(limits.everyMs)
      }),
    )
  })
})
