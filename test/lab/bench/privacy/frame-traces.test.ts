import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { type FrameTrace, findingsOf } from '../../../../lab/bench/privacy/frame-traces.ts'
import type { Arrival } from '../../../../lab/cluster/relay.ts'

const random = seededRandom(1)

interface Shape {
  /** Of the prompt's frame. */
  readonly promptBytes: number
  readonly rounds: number
  /** From one round to the next. */
  readonly gapMs: number
}

/** Six answers to each of eight prompts, at times that vary. */
const traces = (shapeOf: (prompt: number) => Partial<Shape>): FrameTrace[] =>
  Array.from({ length: 48 }, (_, at): FrameTrace => {
    const prompt = at % 8
    const { promptBytes, rounds, gapMs } = { promptBytes: 40_000, rounds: 8, gapMs: 60, ...shapeOf(prompt) }
    let nowMs = 1_000
    const frame = (direction: Arrival['direction'], bytes: number, afterMs: number): Arrival => {
      nowMs += afterMs + 2 * random.next()
      return { direction, bytes, atMs: nowMs }
    }
    const before = [frame('up', promptBytes, 0), frame('down', 300, 60)]
    const firstMs = nowMs + 1
    const after = Array.from({ length: rounds }, () => [frame('up', 2_000, gapMs / 2), frame('down', 2_000, gapMs / 2)])
    return { prompt, firstMs, arrivals: [...before, ...after.flat()] }
  })

/** The mean of what each part finds. */
const found = (shapeOf: (prompt: number) => Partial<Shape>) =>
  Object.fromEntries(Object.entries(findingsOf(traces(shapeOf), seededRandom(1))).map(([part, each]) => [part, each?.mean]))

describe('an observer of lengths and times', () => {
  it('tells prompts apart by the lengths of their frames, and by nothing else', () => {
    const { all, prompt, length, rounds } = found((at) => ({ promptBytes: 10_000 + 500 * at }))
    expect([all, prompt]).toEqual([1, 1])
    expect(length).toBeLessThan(0.4)
    expect(rounds).toBeLessThan(0.4)
  })

  it('tells them apart by the number of rounds, but not by their pattern where it is the same', () => {
    const { prompt, length, rounds } = found((at) => ({ rounds: 8 + at }))
    expect(length).toBe(1)
    expect(prompt).toBeLessThan(0.4)
    expect(rounds).toBeLessThan(0.4)
  })

  it('tells them apart by the times of rounds', () => {
    expect(found((at) => ({ gapMs: 40 + 8 * at })).rounds).toBeGreaterThan(0.9)
  })

  it('guesses where all frames are alike, which the intervals show', () => {
    const findings = findingsOf(
      traces(() => ({})),
      seededRandom(1),
    )
    for (const { mean, low, high, chance } of Object.values(findings)) {
      expect(chance).toBe(1 / 8)
      expect(mean).toBeLessThan(0.4)
      expect(low).toBeLessThanOrEqual(mean)
      expect(high).toBeGreaterThanOrEqual(mean)
      expect(low).toBeLessThan(chance + 0.1)
    }
  })

  it('looks at rounds only of prompts whose answers all have enough, and at none where one prompt is left', () => {
    const of = (long: number) =>
      findingsOf(
        traces((at) => ({ rounds: at < long ? 12 : 3, gapMs: 40 + 8 * at })),
        seededRandom(1),
      )
    expect(of(4).rounds).toMatchObject({ mean: 1, chance: 1 / 4 })
    expect(of(4).all.chance).toBe(1 / 8)
    expect(of(1).rounds).toBeNull()
  })
})
