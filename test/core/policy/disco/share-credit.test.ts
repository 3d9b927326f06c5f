import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ShareCredit } from '../../../../core/policy/disco/share-credit.ts'

const lengths = fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 300, maxLength: 300 })

describe('the credit of a share', () => {
  it('holds the share over many requests, though each plan starts twice what it should', () => {
    fc.assert(
      fc.property(lengths, fc.integer({ min: 10, max: 45 }), fc.integer({ min: 1, max: 1_000 }), (list, percent, seed) => {
        const share = percent / 100
        const credit = new ShareCredit()
        let state = seed
        const random = () => {
          state = (state * 48_271) % 2_147_483_647
          return state / 2_147_483_647
        }
        let begun = 0
        for (const tokens of list) {
          credit.asked(tokens, share)
          if (random() >= 2 * credit.planned(share)) continue
          credit.begun(tokens)
          begun += tokens
        }
        const asked = list.reduce((sum, tokens) => sum + tokens, 0)
        // What is in excess by then is made up within the horizon, of eight prompts.
        expect(begun / asked).toBeLessThan(share + 0.06)
        expect(begun / asked).toBeGreaterThan(share - 0.06)
      }),
    )
  })

  it('is bounded: what an outage forces on a side is made up within a horizon', () => {
    const credit = new ShareCredit()
    for (let at = 0; at < 1_000; at++) {
      credit.asked(100, 0.2)
      credit.begun(100)
    }
    expect(credit.planned(0.2)).toBeLessThan(1e-6)
    for (let at = 0; at < 40; at++) credit.asked(100, 0.2)
    expect(credit.planned(0.2)).toBeCloseTo(0.2, 1)
  })

  it('leaves shares of all and of nothing alone', () => {
    const credit = new ShareCredit()
    expect(credit.planned(0.3)).toBe(0.3)
    for (const share of [0, 1]) {
      credit.asked(10, share)
      credit.begun(10)
      expect(credit.planned(share)).toBe(share)
    }
  })
})
