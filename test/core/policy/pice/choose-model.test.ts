import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseModel, switchS } from '../../../../core/policy/pice/choose-model.ts'
import { expansionS } from '../../../../core/policy/pice/speeds.ts'
import type { SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

/** 1 s per second of name, of 11 tokens; 3 s to open. */
const model = (seconds: number): SmallModelSpeed => ({
  ...{ model: `${seconds} s`, loadS: 3, ttftS: 0, tpotS: seconds / 10, parallel: [], ability: undefined },
})
const models = [model(10), model(20), model(40)]
const choose = (current: string | undefined, budgetS: number, mayUpgrade = true, of = models) =>
  chooseModel({ models: of, current }, { expectedTokens: 11, sequences: 1, budgetS, mayUpgrade }).model

describe('the small model for an expansion', () => {
  it.each<[string, string | undefined, number, boolean, string]>([
    ['a smaller one where the open one is too slow', '40 s', 39, true, '20 s'],
    ['one small enough', '40 s', 22, true, '10 s'],
    ['a smaller one late, where that is quickest', '20 s', 9, true, '10 s'],
    ['the quickest where none is in time', '40 s', 5, true, '10 s'],
    ['the smallest where there is no smaller', '10 s', 1, true, '10 s'],
    ['the next larger one in time', '10 s', 23, true, '20 s'],
    ['the next larger one, not the largest', '10 s', 99, true, '20 s'],
    ['the open one where the larger one is late with its opening', '10 s', 22, true, '10 s'],
    ['the open one while others wait', '10 s', 99, false, '10 s'],
    ['the ablest in time where none is open', undefined, 25, true, '20 s'],
    ['the quickest where none is open nor in time', undefined, 5, false, '10 s'],
  ])('is %s', (_, current, budgetS, mayUpgrade, chosen) => {
    expect(choose(current, budgetS, mayUpgrade)).toBe(chosen)
  })

  it('stays open where switching takes as long as it gains', () => {
    expect(choose('12 s', 1, true, [model(10), model(12)])).toBe('12 s')
  })

  it('is in time if the open one or a smaller one is', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 }),
        fc.double({ min: 0, max: 60, noNaN: true }),
        fc.boolean(),
        (open, budgetS, may) => {
          const current = models[open]!.model
          const secondsOf = (one: SmallModelSpeed) => switchS(one, current) + expansionS(one, 11, 1)
          const chosen = models.find(({ model }) => model === choose(current, budgetS, may))!
          const best = Math.min(...models.slice(0, open + 1).map(secondsOf))
          expect(secondsOf(chosen)).toBeLessThanOrEqual(Math.max(budgetS, best))
        },
      ),
    )
  })
})
