import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ageMs,
  completedWallMs,
  type Moment,
  mostImportant,
  nextDrop,
  type SpooledLeaf,
  type SpoolQueue,
  spoolPriorities,
} from '../../../../core/policy/telemetry/spool.ts'

const queue = (leaf: SpooledLeaf, count: number, oldestAgeMs: number | null = 0): SpoolQueue => ({ leaf, count, oldestAgeMs })
const limits = { maxBytes: 1_000, maxAgeMs: 60_000 }

describe('the spool drops', () => {
  it.each<[string, SpoolQueue[], number, ReturnType<typeof nextDrop>]>([
    ['no message within its limits', [queue('telemetry', 9), queue('log', 9)], 1_000, undefined],
    [
      'the oldest of the least important queue if the spool is too large',
      [queue('log', 9), queue('telemetry', 1)],
      1_001,
      { leaf: 'telemetry', reason: 'full' },
    ],
    [
      'the oldest of a more important queue if no other holds messages',
      [queue('telemetry', 0), queue('log', 9)],
      1_001,
      { leaf: 'log', reason: 'full' },
    ],
    [
      'a message that is too old, whatever its queue',
      [queue('telemetry', 5), queue('log', 5, 60_001)],
      10,
      { leaf: 'log', reason: 'old' },
    ],
    ['no message of unknown age', [queue('telemetry', 5, null)], 10, undefined],
    ['no message of empty queues', [queue('telemetry', 0, null)], 9_999, undefined],
  ])('%s', (_, queues, usedBytes, expected) => {
    expect(nextDrop(queues, usedBytes, limits)).toEqual(expected)
  })

  it('messages until it is within its limit, and none while a less important one is left', () => {
    const message = fc.record({ leaf: fc.constantFrom<SpooledLeaf>('telemetry', 'log'), bytes: fc.integer({ min: 1, max: 400 }) })
    fc.assert(
      fc.property(fc.array(message, { maxLength: 60 }), (messages) => {
        let kept: { leaf: SpooledLeaf; bytes: number }[] = []
        const used = () => kept.reduce((sum, { bytes }) => sum + bytes, 0)
        for (const one of messages) {
          kept.push(one)
          for (;;) {
            const queues = (['telemetry', 'log'] as const).map((leaf) =>
              queue(leaf, kept.filter((other) => other.leaf === leaf).length),
            )
            const drop = nextDrop(queues, used(), limits)
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

describe('the queue that is replayed first', () => {
  it('is the most important one that holds messages', () => {
    expect(mostImportant([queue('log', 1), queue('telemetry', 3)])).toBe('log')
    expect(mostImportant([queue('log', 0), queue('telemetry', 3)])).toBe('telemetry')
    expect(mostImportant([queue('log', 0), queue('telemetry', 0)])).toBeUndefined()
  })
})

describe('the time of a spooled message', () => {
  const now: Moment = { wallMs: 1_000_000, isSet: true, birth: 3, monotonicMs: 50_000 }
  const moment = fc.record({
    wallMs: fc.nat(2_000_000),
    isSet: fc.boolean(),
    birth: fc.integer({ min: 1, max: 4 }),
    monotonicMs: fc.nat(100_000),
  })

  it('is measured by the monotonic clock within a birth, by the time of day between births, else unknown', () => {
    expect(ageMs({ ...now, isSet: false, wallMs: 5, monotonicMs: 20_000 }, now)).toBe(30_000)
    expect(ageMs({ ...now, birth: 2, wallMs: 400_000, monotonicMs: 999_999 }, now)).toBe(600_000)
    expect(ageMs({ ...now, birth: 2, isSet: false }, now)).toBeNull()
  })

  it('is completed once the clock is set, for the same birth only', () => {
    const then = { ...now, isSet: false, wallMs: 5, monotonicMs: 20_000 }
    expect(completedWallMs(then, now)).toBe(970_000)
    expect(completedWallMs({ ...then, birth: 2 }, now)).toBeUndefined()
    expect(completedWallMs(then, { ...now, isSet: false })).toBeUndefined()
    expect(completedWallMs({ ...then, isSet: true }, now)).toBeUndefined()
  })

  it('keeps its age when it is completed', () => {
    fc.assert(
      fc.property(moment, moment, (then, later) => {
        const completed = completedWallMs(then, later)
        fc.pre(completed !== undefined && later.monotonicMs >= then.monotonicMs)
        expect(later.wallMs - completed!).toBe(ageMs(then, later))
      }),
    )
  })
})
