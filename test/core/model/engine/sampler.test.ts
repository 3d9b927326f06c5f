import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { logprobsOf } from '../../../../core/model/engine/logprobs.ts'
import { positionNoise } from '../../../../core/model/engine/noise.ts'
import {
  checkSampling,
  choiceGap,
  chooseToken,
  greedy,
  nearTie,
  type Sampling,
  topProbability,
} from '../../../../core/model/engine/sampler.ts'

const sampling = (settings: Partial<Sampling>): Sampling => ({ temperature: 1, topK: 0, topP: 1, seed: 1, ...settings })
const logitRow = fc
  .array(fc.float({ min: -30, max: 30, noNaN: true }), { minLength: 1, maxLength: 40 })
  .map((row) => Float32Array.from(row))

describe('greedy choice', () => {
  it('is the likeliest token, with the lowest id among equal ones', () => {
    expect(chooseToken(Float32Array.of(0, 3, 3, 1), greedy, 5)).toBe(1)
    expect(chooseToken(Float32Array.of(-5), greedy, 0)).toBe(0)
    expect(chooseToken(Float32Array.of(Number.NEGATIVE_INFINITY, -7, Number.NEGATIVE_INFINITY), greedy, 0)).toBe(1)
  })

  it.each([
    ['NaN at token 2', [0, 1, Number.NaN]],
    ['Infinity at token 1', [0, Number.POSITIVE_INFINITY]],
    ['no finite value', [Number.NEGATIVE_INFINITY]],
  ])('rejects logits with %s', (what, row) => {
    for (const temperature of [0, 1])
      expect(() => chooseToken(Float32Array.from(row), sampling({ temperature }), 0)).toThrow(
        expect.objectContaining({ code: 'RUNTIME_FAILED', message: expect.stringContaining(what) }),
      )
  })
})

describe('sampling', () => {
  it('equals the argmax of logit/T + noise over all allowed tokens, including ties and limits', () => {
    const settings = fc.record({
      temperature: fc.double({ min: 0.05, max: 5, noNaN: true }),
      topK: fc.integer({ min: 0, max: 45 }),
      topP: fc.double({ min: 0.01, max: 1, noNaN: true }),
      minP: fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
      seed: fc.maxSafeInteger(),
    })
    fc.assert(
      fc.property(logitRow, settings, fc.integer({ min: 0, max: 40_000 }), (logits, how, position) => {
        expect(chooseToken(logits, how, position)).toBe(chooseByDefinition(logits, how, position))
      }),
      {
        numRuns: 1_000,
        // Signs, zeroes and tokens that a mask has ruled out.
        examples: [0.3, 0.6, 0.9, 0.999].map((topP) => [
          Float32Array.of(Number.NEGATIVE_INFINITY, 0, -0, 1e-40, -1e-40, -2, 1, Number.NEGATIVE_INFINITY),
          { temperature: 1, topK: 0, topP, seed: 3 },
          7,
        ]),
      },
    )
  })

  it.each<[string, Partial<Sampling>]>([
    ['at temperature 1', {}],
    ['at temperature 0.7', { temperature: 0.7 }],
    ['at temperature 2', { temperature: 2 }],
    ['with top-k 5', { topK: 5 }],
    ['with top-p 0.8', { topP: 0.8 }],
    ['with min-p 0.2', { minP: 0.2, temperature: 1.3 }],
    ['with all of them', { temperature: 1.5, topK: 7, topP: 0.9, minP: 0.1 }],
  ])('has the distribution of the softmax %s (χ² over positions and over seeds)', (_, settings) => {
    const logits = Float32Array.of(1.2, -0.5, 0.3, 2, -3, 0.9, 1.9, -1, 0, 0.4, -0.2, 1.1)
    const expected = distribution(logits, sampling(settings))
    const draws = 20_000
    const overPositions = count(draws, (draw) => chooseToken(logits, sampling({ ...settings, seed: 42 }), draw))
    const overSeeds = count(draws, (draw) => chooseToken(logits, sampling({ ...settings, seed: draw }), 17))
    // 11 degrees of freedom at most: above 31.3 once in a thousand runs; the draws are fixed, so it passes or not for good.
    expect(chiSquare(overPositions, expected, draws)).toBeLessThan(31.3)
    expect(chiSquare(overSeeds, expected, draws)).toBeLessThan(31.3)
  })

  it('depends only on seed and position', () => {
    const logits = new Float32Array(1_000)
    const draw = (seed: number, position: number) => chooseToken(logits, sampling({ seed }), position)
    expect(draw(7, 3)).toBe(draw(7, 3))
    expect(new Set(Array.from({ length: 50 }, (_, at) => draw(7, at))).size).toBeGreaterThan(40)
    expect(new Set(Array.from({ length: 50 }, (_, at) => draw(at, 3))).size).toBeGreaterThan(40)
    // seeds that share their lower 32 bits, or differ in sign
    expect(new Set([5, 5 + 2 ** 32, -5, 2 ** 53 - 1].map((seed) => draw(seed, 3))).size).toBe(4)
  })

  it('is independent for neighbouring positions and seeds (χ² of pairs)', () => {
    const logits = new Float32Array(4)
    const expected = new Array<number>(16).fill(1 / 16)
    const draw = (seed: number, position: number) => chooseToken(logits, sampling({ seed }), position)
    const pairs = [
      count(20_000, (at) => draw(3, at) * 4 + draw(3, at + 1), 16),
      count(20_000, (at) => draw(at, 9) * 4 + draw(at + 1, 9), 16),
      count(20_000, (at) => draw(at, 9) * 4 + draw(at, 10), 16),
      count(20_000, (at) => draw(1, at) * 4 + draw(2, at), 16),
    ]
    // 15 degrees of freedom: above 37.7 once in a thousand
    for (const pair of pairs) expect(chiSquare(pair, expected, 20_000)).toBeLessThan(37.7)
  })

  it('follows the definition for 152,000 tokens', () => {
    const random = seededRandom(5)
    const gaussian = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
    const logits = Float32Array.from({ length: 152_000 }, () => 2.5 * gaussian())
    for (let position = 0; position < 2; position++)
      for (const how of [sampling({ temperature: 0.8 }), sampling({ topK: 50, topP: 0.9 }), sampling({ topP: 0.95 })])
        expect(chooseToken(logits, how, position)).toBe(chooseByDefinition(logits, how, position))
  })

  it.each<Partial<Sampling>>([
    { temperature: -1 },
    { temperature: Number.NaN },
    { topK: 1.5 },
    { topP: 0 },
    { topP: 1.1 },
    { minP: -0.1 },
    { minP: 1.1 },
    { presencePenalty: 2.1 },
    { frequencyPenalty: Number.NaN },
    { seed: 0.5 },
  ])('rejects %o', (settings) => {
    expect(() => checkSampling(sampling(settings))).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  })
})

describe('penalties', () => {
  it('lower the logit of tokens that the answer has: once, and once for each time', () => {
    const penalty = fc.double({ min: -2, max: 2, noNaN: true })
    const settings = fc.record({ presencePenalty: penalty, frequencyPenalty: penalty, temperature: fc.constantFrom(0, 0.8) })
    fc.assert(
      fc.property(logitRow, settings, fc.array(fc.nat(39), { maxLength: 60 }), (logits, given, drawn) => {
        const how = sampling(given)
        const answered = drawn.filter((token) => token < logits.length)
        const penalised = Float32Array.from(logits, (logit, token) => {
          const times = answered.filter((each) => each === token).length
          return times === 0 ? logit : logit - given.presencePenalty - times * given.frequencyPenalty
        })
        const before = logits.slice()
        const choice = chooseToken(logits, how, 7, answered)
        expect(choice).toBe(chooseToken(penalised, sampling({ temperature: given.temperature }), 7))
        expect(choiceGap(logits, how, 7, choice, answered)).toBe(0)
        expect(logits).toEqual(before)
      }),
    )
  })
})

describe('log probabilities', () => {
  it('are those of the softmax at temperature 1, for the choice and the likeliest tokens', () => {
    fc.assert(
      fc.property(logitRow, fc.nat(39), fc.nat(5), (logits, drawn, wanted) => {
        const token = drawn % logits.length
        const probabilities = distribution(logits, sampling({}))
        const { logprob, top } = logprobsOf(logits, token, wanted)
        expect(Math.exp(logprob)).toBeCloseTo(probabilities[token]!, 6)
        const descending = [...probabilities].sort((a, b) => b - a).slice(0, wanted)
        expect(top).toHaveLength(descending.length)
        for (const [at, each] of top.entries()) {
          expect(Math.exp(each.logprob)).toBeCloseTo(descending[at]!, 6)
          expect(Math.exp(each.logprob)).toBeCloseTo(probabilities[each.token]!, 6)
        }
      }),
    )
  })
})

describe('noise', () => {
  it('changes half of its bits if one bit of seed, position or token changes', () => {
    const upper = (seed: number, position: number, token: number) => positionNoise(seed, position).upper(token)
    const random = seededRandom(1)
    for (let bit = 0; bit < 20; bit++) {
      const flips = [0, 0, 0]
      const rounds = 400
      for (let round = 0; round < rounds; round++) {
        const [seed, position, token] = [0, 0, 0].map(() => Math.floor(random.next() * 2 ** 20)) as [number, number, number]
        const base = upper(seed, position, token)
        const others = [
          upper(seed ^ (1 << bit), position, token),
          upper(seed, position ^ (1 << bit), token),
          upper(seed, position, token ^ (1 << bit)),
        ]
        others.forEach((other, at) => {
          flips[at] = (flips[at] ?? 0) + bitsOf(base ^ other)
        })
      }
      // 32 · 400 fair coins: a standard deviation of 57 around 6,400
      for (const flipped of flips) expect(Math.abs(flipped - 16 * rounds)).toBeLessThan(400)
    }
  })

  it('has the mean and variance of the standard Gumbel distribution', () => {
    let sum = 0
    let squares = 0
    const draws = 200_000
    for (let draw = 0; draw < draws; draw++) {
      const noise = positionNoise(11, Math.floor(draw / 1_000))
      const value = noise.gumbel(draw % 1_000, noise.upper(draw % 1_000))
      sum += value
      squares += value * value
    }
    const mean = sum / draws
    expect(mean).toBeCloseTo(0.5772, 1)
    expect(Math.abs(mean - 0.5772)).toBeLessThan(0.012)
    expect(Math.abs(squares / draws - mean * mean - Math.PI ** 2 / 6)).toBeLessThan(0.05)
  })
})

describe('the top probability', () => {
  it('equals that of the softmax', () => {
    fc.assert(
      fc.property(logitRow, (logits) => {
        expect(topProbability(logits)).toBeCloseTo(Math.max(...distribution(logits, sampling({}))), 6)
      }),
    )
  })
})

describe('the gap to a token', () => {
  it('is zero only for the choice, and the difference of the logits for other tokens', () => {
    fc.assert(
      fc.property(logitRow, fc.constantFrom(0, 0.8), fc.nat(1_000), (logits, temperature, position) => {
        const how = sampling({ temperature })
        const choice = chooseToken(logits, how, position)
        for (let token = 0; token < logits.length; token++) {
          const gap = choiceGap(logits, how, position, token)
          if (token === choice) expect(gap).toBe(0)
          else {
            const lifted = Float32Array.from(logits)
            lifted[token] = (lifted[token] as number) + gap + 1e-3
            expect(chooseToken(lifted, how, position)).toBe(token)
          }
        }
      }),
    )
  })

  it('is large for a token far below the limit of top-k and small at the limit', () => {
    const how = sampling({ topK: 2 })
    const logits = Float32Array.of(5, 4, 3.999, -5)
    const gaps = [0, 1, 2, 3].map((token) =>
      Math.min(...Array.from({ length: 60 }, (_, position) => choiceGap(logits, how, position, token))),
    )
    expect(gaps[2]).toBeLessThan(nearTie)
    expect(gaps[3]).toBeGreaterThan(8)
  })
})

/** The tokens that top-k, top-p and min-p allow, by their definition. */
function keptTokens(logits: Float32Array, { temperature, topK, topP, minP = 0 }: Sampling): (token: number) => boolean {
  const order = [...logits].sort((a, b) => b - a)
  const lowest = topK > 0 ? (order[Math.min(topK, order.length) - 1] as number) : Number.NEGATIVE_INFINITY
  const weight = (logit: number) => Math.exp((logit - (order[0] as number)) / temperature)
  const total = [...logits].reduce((sum, logit) => (logit >= lowest ? sum + weight(logit) : sum), 0)
  let cutoff = lowest
  let sum = 0
  if (topP < 1)
    for (const logit of order) {
      cutoff = logit
      sum += weight(logit)
      if (sum >= topP * total) break
    }
  const top = order[0] as number
  return (token) => (logits[token] as number) >= cutoff && (logits[token] as number) >= top + temperature * Math.log(minP)
}

function distribution(logits: Float32Array, how: Sampling): number[] {
  const kept = keptTokens(logits, how)
  const top = Math.max(...logits)
  const weights = Array.from(logits, (logit, token) => (kept(token) ? Math.exp((logit - top) / how.temperature) : 0))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

function chooseByDefinition(logits: Float32Array, how: Sampling, position: number): number {
  const kept = keptTokens(logits, how)
  const noise = positionNoise(how.seed, position)
  let best = -1
  let top = Number.NEGATIVE_INFINITY
  for (let token = 0; token < logits.length; token++) {
    if (!kept(token)) continue
    const score = (logits[token] as number) * (1 / how.temperature) + noise.gumbel(token, noise.upper(token))
    if (score > top) {
      top = score
      best = token
    }
  }
  return best
}

function count(draws: number, draw: (at: number) => number, size = 12): number[] {
  const counts = new Array<number>(size).fill(0)
  for (let at = 0; at < draws; at++) {
    const drawn = draw(at)
    counts[drawn] = (counts[drawn] ?? 0) + 1
  }
  return counts
}

/** Infinity if an impossible outcome was observed. */
function chiSquare(counts: number[], expected: number[], draws: number): number {
  return counts.reduce((sum, seen, at) => {
    const want = (expected[at] as number) * draws
    if (want === 0) return seen === 0 ? sum : Number.POSITIVE_INFINITY
    return sum + (seen - want) ** 2 / want
  }, 0)
}

function bitsOf(value: number): number {
  let bits = 0
  for (let rest = value >>> 0; rest > 0; rest >>>= 1) bits += rest & 1
  return bits
}
