import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { quantile } from '../../../../core/policy/estimate/quantile.ts'
import { leastDollars, leastP99Ms } from '../../../../lab/bench/disco/oracle.ts'

const starts = fc.record({
  promptTokens: fc.integer({ min: 1, max: 50 }),
  freeMs: fc.integer({ min: 1, max: 100 }),
  limitedMs: fc.integer({ min: 1, max: 100 }),
})

describe('the oracle of a dispatcher', () => {
  it('is the best of all choices within the budget, found by trying each', () => {
    fc.assert(
      fc.property(
        fc.array(starts, { minLength: 1, maxLength: 9 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (requests, share) => {
          const total = requests.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
          let best = Number.POSITIVE_INFINITY
          for (let chosen = 0; chosen < 2 ** requests.length; chosen++) {
            const isChosen = (at: number) => (chosen >> at) % 2 === 1
            const spent = requests.reduce((sum, { promptTokens }, at) => sum + (isChosen(at) ? promptTokens : 0), 0)
            if (spent > share * total) continue
            const ttfts = requests.map(({ freeMs, limitedMs }, at) => (isChosen(at) ? Math.min(freeMs, limitedMs) : freeMs))
            best = Math.min(best, quantile(ttfts, 0.99))
          }
          const sorted = leastP99Ms(requests, share)
          expect(sorted).toBeLessThanOrEqual(best)
          // Between two order statistics the quantile is interpolated: of one request it is the request.
          if (requests.length === 1) expect(sorted).toBe(best)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('lets as many requests be late as the quantile leaves out, and no more', () => {
    const slow = (count: number) =>
      Array.from({ length: 500 }, (_, at) => ({ promptTokens: 10, freeMs: at < count ? 9_000 : 100, limitedMs: 500 }))
    expect(leastP99Ms(slow(5), 0)).toBe(100)
    expect(leastP99Ms(slow(6), 0)).toBe(9_000)
    expect(leastP99Ms(slow(6), 1 / 500)).toBe(500)
    expect(leastP99Ms(slow(60), 55 / 500)).toBe(500)
    expect(leastP99Ms(slow(60), 0.1)).toBe(9_000)
  })

  it('moves an answer after its first token, or not at all', () => {
    const work = { local: { promptTokens: 10, tokens: 0 }, remote: { promptTokens: 10, tokens: 21 } }
    const remote = { prompt: 1, output: 5 }
    // The prompts of both, a token of the server, prompt and token again on the device, and the other 20 tokens there.
    expect(leastDollars(work, { remote, local: { prompt: 1, output: 1 } })).toBe(10 + 10 + 5 + 11 + 20)
    expect(leastDollars(work, { remote, local: { prompt: 8, output: 1 } })).toBe(80 + 10 + 105)
  })
})
