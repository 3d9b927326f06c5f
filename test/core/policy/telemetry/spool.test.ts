import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ageMs,
  type Moment,
  mendedWallMs,
  nextDrop,
  nextReplay,
  type SpooledLeaf,
  type SpoolQueue,
  spoolPriorities,
} from '../../../../core/policy/telemetry/spool.ts'

const shelf = (leaf: SpooledLeaf, count: number, oldestAgeMs: number | null = 0): SpoolQueue => ({ leaf, count, oldestAgeMs })
const limits = { maxBytes: 1_000, maxAgeMs: 60_000 }

describe('what is dropped from the spool', () => {
  it.each<[string, SpoolQueue[], number, ReturnType<typeof nextDrop>]>([
    ['nothing while there is room', [shelf('telemetry', 9), shelf('log', 9)], 1_000, undefined],
    [
      'the least important where there is none',
      [shelf('log', 9), shelf('telemetry', 1)],
      1_001,
      { leaf: 'telemetry', reason: 'full' },
    ],
    [
      'the more important where nothing else is left',
      [shelf('telemetry', 0), shelf('log', 9)],
      1_001,
      { leaf: 'log', reason: 'full' },
    ],
    ['what is too old, whatever it is', [shelf('telemetry', 5), shelf('log', 5, 60_001)], 10, { leaf: 'log', reason: 'old' }],
    ['nothing of unknown age', [shelf('telemetry', 5, null)], 10, undefined],
    ['nothing where there is nothing', [shelf('telemetry', 0, null)], 9_999, undefined],
  ])('%s', (_, shelves, usedBytes, expected) => {
    expect(nextDrop(shelves, usedBytes, limits)).toEqual(expected)
  })

  it('leaves room, and drops nothing while less important things are left, whatever was put in', () => {
    const message = fc.record({ leaf: fc.constantFrom<SpooledLeaf>('telemetry', 'log'), bytes: fc.integer({ min: 1, max: 400 }) })
    fc.assert(
      fc.property(fc.array(message, { maxLength: 60 }), (messages) => {
        let kept: { leaf: SpooledLeaf; bytes: number }[] = []
        const used = () => kept.reduce((sum, { bytes }) => sum + bytes, 0)
        for (const one of messages) {
          kept.push(one)
          for (;;) {
            const shelves = (['telemetry', 'log'] as const).map((leaf) =>
              shelf(leaf, kept.filter((other) => other.leaf === leaf).length),
            )
            const drop = nextDrop(shelves, used(), limits)
            if (!drop) break
            expect(kept.every(({ leaf }) => spoolPriorities[leaf] >= spoolPriorities[drop.leaf])).toBe(true)
            const oldest = kept.findIndex(({ leaf }) => leaf === drop.leaf)
            kept = kept.filter((_, index) => index !== oldest)
          }
          expect(used()).toBeLessThanOrEqual(limits.maxBytes)
        }
      }),
    )
  })
})

describe('what is replayed', () => {
  it.each<[string, Parameters<typeof nextReplay>, ReturnType<typeof nextReplay>]>([
    ['nothing while nobody hears', [[shelf('telemetry', 3)], false, 1_000, 100], { kind: 'idle' }],
    ['nothing where nothing waits', [[shelf('telemetry', 0)], true, 1_000, 100], { kind: 'idle' }],
    ['the most important first', [[shelf('log', 1), shelf('telemetry', 3)], true, 100, 100], { kind: 'send', leaf: 'log' }],
    ['then the rest', [[shelf('log', 0), shelf('telemetry', 3)], true, 100, 100], { kind: 'send', leaf: 'telemetry' }],
    ['no faster than it may', [[shelf('telemetry', 3)], true, 30, 100], { kind: 'wait', ms: 70 }],
  ])('%s', (_, given, expected) => {
    expect(nextReplay(...given)).toEqual(expected)
  })
})

describe('the time of what waits', () => {
  const now: Moment = { wallMs: 1_000_000, isSet: true, birth: 3, monotonicMs: 50_000 }
  const moment = fc.record({
    wallMs: fc.nat(2_000_000),
    isSet: fc.boolean(),
    birth: fc.integer({ min: 1, max: 4 }),
    monotonicMs: fc.nat(100_000),
  })

  it('is known by the monotonic clock within a birth, by the time of day where both knew it, else not', () => {
    expect(ageMs({ ...now, isSet: false, wallMs: 5, monotonicMs: 20_000 }, now)).toBe(30_000)
    expect(ageMs({ ...now, birth: 2, wallMs: 400_000, monotonicMs: 999_999 }, now)).toBe(600_000)
    expect(ageMs({ ...now, birth: 2, isSet: false }, now)).toBeNull()
  })

  it('is mended once the time is known, and for the same birth alone', () => {
    const then = { ...now, isSet: false, wallMs: 5, monotonicMs: 20_000 }
    expect(mendedWallMs(then, now)).toBe(970_000)
    expect(mendedWallMs({ ...then, birth: 2 }, now)).toBeUndefined()
    expect(mendedWallMs(then, { ...now, isSet: false })).toBeUndefined()
    expect(mendedWallMs({ ...then, isSet: true }, now)).toBeUndefined()
  })

  it('once mended says the age that it had', () => {
    fc.assert(
      fc.property(moment, moment, (then, later) => {
        const mended = mendedWallMs(then, later)
        fc.pre(mended !== undefined && later.monotonicMs >= then.monotonicMs)
        expect(later.wallMs - mended!).toBe(ageMs(then, later))
      }),
    )
  })
})
