import { describe, expect, it } from 'vitest'
import { LengthRatio } from '../../../../core/policy/pice/length-ratio.ts'

const learnt = (pairs: readonly (readonly [number, number])[], of = new LengthRatio()) => {
  for (const [predicted, real] of pairs) of.record(predicted, real)
  return of
}
const times = <T>(count: number, value: T): T[] => Array<T>(count).fill(value)

describe('the ratio of true to predicted lengths', () => {
  it('is 1 before it is measured, and not moved by the first pairs', () => {
    expect(new LengthRatio().correct(150)).toBe(150)
    expect(learnt(times(2, [100, 300])).correct(100)).toBe(100)
  })

  it('is learnt, whatever a few answers do', () => {
    const ratio = learnt([...times(20, [100, 200] as const), [100, 1], [100, 100_000], [3, 100_000]])
    expect(ratio.correct(150)).toBe(300)
    expect(learnt(times(20, [200, 100])).correct(150)).toBe(75)
  })

  it('follows a model that changes', () => {
    expect(learnt([...times(200, [100, 200] as const), ...times(64, [100, 50] as const)]).correct(100)).toBe(50)
  })

  it('stays within bounds, and lengths positive', () => {
    expect(learnt(times(20, [1, 1_000_000])).correct(10)).toBe(80)
    expect(learnt(times(20, [1_000_000, 0])).correct(1)).toBe(1)
    expect(learnt(times(20, [0, 0])).ratio).toBe(1)
  })

  it('goes on after a restart', () => {
    const before = learnt(times(10, [100, 200]))
    const after = learnt(times(3, [100, 50]), new LengthRatio(before.samples))
    expect(after.samples).toEqual(learnt(times(3, [100, 50]), before).samples)
    const full = learnt(times(70, [100, 200]))
    const grown = learnt([[100, 50]], new LengthRatio(full.samples))
    expect(grown.samples).toHaveLength(64)
    expect(grown.samples.at(-1)).toBeCloseTo(Math.log(0.5))
  })
})
