import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ShortRuns } from '../../../../core/policy/estimate/short-runs.ts'

describe('short runs', () => {
  it('are known only once a run of as many rows was short', () => {
    const runs = new ShortRuns()
    expect(runs.isShort(1)).toBe(false)
    runs.record(1, 0.1)
    expect([runs.isShort(1), runs.isShort(2), runs.isShort(64)]).toEqual([true, false, false])
    runs.record(64, 3)
    expect([runs.isShort(1), runs.isShort(33), runs.isShort(64)]).toEqual([true, false, false])
  })

  it('stay short after one that other processes have lengthened, and end where all take longer', () => {
    const runs = new ShortRuns()
    runs.record(4, 0.1)
    runs.record(4, 80)
    expect(runs.isShort(3)).toBe(true)
    let recorded = 0
    for (; runs.isShort(3) && recorded < 100; recorded++) runs.record(3, 0.9)
    expect(recorded).toBeGreaterThan(5)
    expect(recorded).toBeLessThan(100)
  })

  it('are never those of which each took longer than a quarter of a millisecond', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 2_048 }), fc.double({ min: 0.26, max: 1e6, noNaN: true }))),
        (all) => {
          const runs = new ShortRuns()
          return all.every(([rows, ms]) => {
            runs.record(rows, ms)
            return !runs.isShort(rows)
          })
        },
      ),
    )
  })
})
