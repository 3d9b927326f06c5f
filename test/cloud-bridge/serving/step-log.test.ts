import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StepLog } from '../../../cloud-bridge/serving/step-log.ts'

describe('the step log', () => {
  it('lists the last steps, oldest first, each with its index', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 40 }), (capacity, count) => {
        const log = new StepLog(capacity)
        for (let at = 0; at < count; at++)
          log.record({ startedMs: 100 + at, items: 1, tokens: at + 1, computeMs: 2, predictedS: 0.003 }, 90)
        const first = Math.max(0, count - capacity)
        const indices = Array.from({ length: count - first }, (_, i) => first + i)
        expect(log.list()).toEqual(
          indices.map((index) => ({ index, startMs: 10 + index, items: 1, tokens: index + 1, computeMs: 2, predictedMs: 3 })),
        )
      }),
      {
        examples: [
          [4, 4],
          [4, 5],
          [4, 8],
          [1, 3],
        ],
      },
    )
  })

  it('lists a step without a prediction as null', () => {
    const log = new StepLog(4)
    log.record({ startedMs: 7, items: 2, tokens: 5, computeMs: 1, predictedS: undefined }, 5)
    expect(log.list()).toEqual([{ index: 0, startMs: 2, items: 2, tokens: 5, computeMs: 1, predictedMs: null }])
  })
})
