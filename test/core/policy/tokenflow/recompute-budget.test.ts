import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Reader } from '../../../../core/policy/serving/reader.ts'
import { RecomputeBudget, recomputeS } from '../../../../core/policy/tokenflow/recompute-budget.ts'
import { answerState, unmeasured } from '../../../support/serving-state.ts'

const speeds = { ...unmeasured, prefillSPerRow: 0.01 }
const begun = new Reader(5, 100, 0)
begun.deliver(3, 0)

describe('computing a stream again', () => {
  it.each([
    ['takes its rows, where no tier holds them', { resumptions: ['recompute'] }, 65],
    ['takes nothing where they can be loaded', {}, 0],
    ['takes what the slow tier has lost', { contextLength: 40, waitingRows: 25 }, 25],
    [
      'takes nothing of a prompt that has not been computed yet',
      { contextLength: 0, waitingRows: 64, reader: new Reader(5, 100, 0), resumptions: ['recompute'] },
      0,
    ],
  ] as const)('%s', (_, fields, rows) => {
    expect(recomputeS(answerState(1, { reader: begun, ...fields }), speeds)).toBeCloseTo(rows * 0.01, 9)
  })

  it('takes nothing as long as nothing has been measured', () => {
    expect(recomputeS(answerState(1, { reader: begun, resumptions: ['recompute'] }), unmeasured)).toBe(0)
  })
})

it('never allows more than its share of the time that has passed since the start', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 60_000 }), fc.double({ min: 0, max: 2, noNaN: true }))), (asked) => {
      const budget = new RecomputeBudget()
      let nowMs = 5_000
      let spentS = 0
      budget.accrue(nowMs)
      for (const [waitMs, seconds] of asked) {
        nowMs += waitMs
        budget.accrue(nowMs)
        if (seconds > budget.creditS) continue
        budget.spend(seconds)
        spentS += seconds
      }
      expect(spentS).toBeLessThanOrEqual((0.05 * (nowMs - 5_000)) / 1_000 + 1e-9)
      expect(budget.creditS).toBeLessThanOrEqual(0.5)
    }),
  )
})
