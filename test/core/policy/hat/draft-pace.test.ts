import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { draftPays, RoundPace } from '../../../../core/policy/hat/draft-pace.ts'
import { draftEnds } from '../../../../core/policy/hat/draft-stop.ts'

const share = fc.double({ min: 0.01, max: 1, noNaN: true })
const positive = fc.double({ min: 1e-3, max: 1e3, noNaN: true })

describe('whether another drafted token pays', () => {
  it('is not more likely where it costs more, where time is worth more, or where the draft is less likely right', () => {
    fc.assert(
      fc.property(share, share, positive, positive, share, (chance, rightShare, tokensPerS, tokenS, less) => {
        const pace = { rightShare, tokensPerS, tokenS }
        if (draftPays(chance, pace)) {
          expect(draftPays(chance, { ...pace, tokenS: less * tokenS })).toBe(true)
          expect(draftPays(chance, { ...pace, tokensPerS: less * tokensPerS })).toBe(true)
        } else {
          expect(draftPays(less * chance, pace)).toBe(false)
          expect(draftPays(chance, { ...pace, rightShare: less * rightShare })).toBe(false)
        }
      }),
    )
  })
})

/** Tokens per second of rounds that take `roundS` and `tokenS` for each drafted token; the drafter knows how certain it is. */
function rateOf(roundS: number, tokenS: number, threshold: number | 'paced'): number {
  const random = seededRandom(7)
  const pace = new RoundPace()
  let [tokens, seconds] = [0, 0]
  for (let round = 0; round < 20_000; round += 1) {
    const limits = { threshold: threshold === 'paced' ? 0.6 : threshold, limit: 16 }
    const paced = { ...limits, pace: threshold === 'paced' ? pace.paceAt(tokenS) : undefined }
    const probabilities: number[] = []
    let [accepted, isRight] = [0, true]
    do {
      const probability = random.next() ** 0.5
      probabilities.push(probability)
      isRight &&= random.next() < probability
      if (isRight) accepted += 1
    } while (!draftEnds(probabilities, paced))
    const roundOf = {
      tokens: accepted + 1,
      seconds: roundS + probabilities.length * tokenS,
      drafted: probabilities.length,
      accepted,
    }
    pace.record(roundOf)
    tokens += roundOf.tokens
    seconds += roundOf.seconds
  }
  return tokens / seconds
}

describe('drafts that end by the pace of rounds', () => {
  it.each([
    [0.05, 0.002],
    [0.05, 0.01],
    [0.05, 0.03],
    [0.3, 0.01],
  ])('gain as many tokens per second as with the best threshold (rounds of %d s, %d s per token)', (roundS, tokenS) => {
    const best = Math.max(...[0.2, 0.4, 0.6, 0.8].map((threshold) => rateOf(roundS, tokenS, threshold)))
    expect(rateOf(roundS, tokenS, 'paced')).toBeGreaterThan(0.98 * best)
  })

  it('has no pace before the first round with a draft', () => {
    const pace = new RoundPace()
    expect(pace.paceAt(1)).toBeUndefined()
    pace.record({ tokens: 1, seconds: 1, drafted: 0, accepted: 0 })
    expect(pace.paceAt(1)).toBeUndefined()
    pace.record({ tokens: 3, seconds: 1, drafted: 4, accepted: 2 })
    // Of four tokens three were checked.
    expect(pace.paceAt(0.1)).toMatchObject({ rightShare: 2 / 3, tokenS: 0.1 })
    expect(pace.paceAt(0.1)!.tokensPerS).toBeCloseTo(1.4)
  })
})
