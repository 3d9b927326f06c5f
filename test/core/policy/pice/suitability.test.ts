import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bucketCount, featuresOf, surfaceFeatures } from '../../../../core/policy/pice/request-features.ts'
import { Suitability } from '../../../../core/policy/pice/suitability.ts'

const suits = (request: string, suitability = new Suitability()) => suitability.judge(request, 1).suits
const tales = ['king', 'miller', 'princess', 'shepherd', 'soldier', 'queen', 'fisher', 'witch', 'tailor', 'cook'].map(
  (hero) => `Write a fairy tale about a brave ${hero} who loses a ring to a dragon.`,
)
const tale = 'Write a fairy tale about a proud fox who loses a bell to a giant.'

describe('a request', () => {
  it.each([
    'What are the advantages of solar panels?',
    'How can I prepare for a job interview?',
    'What if dinosaurs had survived?',
    'Give me some tips for better sleep.',
    'Please tell me how to grow tomatoes on a balcony.',
    'Compare trains and planes in terms of cost and comfort.',
  ])('for a list of points suits a sketch: %s', (request) => {
    expect(suits(request)).toBe(true)
  })

  it.each([
    'Write a Python function that reverses a string.',
    'Implement binary search in C++.',
    'Solve for x: 7x - 3 = 25.',
    'What is 17 * 23?',
    'A train travels 120 km in 80 minutes. What is its average speed?',
    'Why does this fail? "let a = 1;\nreturn a.b.c();"',
    'Translate into German: "I like tea."',
    'Who wrote Don Quixote?',
    'Which planet is the largest? A) Mars B) Jupiter C) Venus',
    'Write an email to my landlord about the heating.',
    '',
  ])('for code, mathematics, a fact or one text does not: %s', (request) => {
    expect(suits(request)).toBe(false)
  })

  it('of any size and content is judged, the same each time', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), (text) => {
        const { probability } = new Suitability().judge(text, 0.5)
        expect(probability).toBeGreaterThanOrEqual(0)
        expect(probability).toBeLessThan(1)
        expect(new Suitability().judge(text, 0.5).probability).toBe(probability)
      }),
    )
    for (const huge of ['word '.repeat(200_000), '('.repeat(1_000_000), 'how '.repeat(300_000), 'write\n'.repeat(200_000)])
      expect(suits(huge)).toEqual(expect.any(Boolean))
  })

  it('has features within bounds', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), (text) => {
        const { surface, buckets } = featuresOf(text)
        expect(surface).toHaveLength(surfaceFeatures.length)
        for (const value of surface) expect(value >= 0 && value <= 1).toBe(true)
        expect(new Set(buckets).size).toBe(buckets.length)
        for (const bucket of buckets) expect(Number.isInteger(bucket) && bucket >= 0 && bucket < bucketCount).toBe(true)
      }),
    )
  })
})

describe('the confidence of expanded answers', () => {
  it('makes a kind of request suitable that was not, and no other kind', () => {
    const suitability = new Suitability()
    expect(suits(tale, suitability)).toBe(false)
    for (const each of tales) suitability.learn(each, 0.8)
    expect(suits(tale, suitability)).toBe(true)
    expect(suits('Write a Python function that reverses a string.', suitability)).toBe(false)
    expect(suits('Solve for x: 7x - 3 = 25.', suitability)).toBe(false)
    expect(suits('Give me some tips for better sleep.', suitability)).toBe(true)
  })

  it('shows a kind to be suitable by three good answers: unsuitable ones are hardly tried', () => {
    const suitability = new Suitability()
    for (const each of tales.slice(0, 3)) suitability.learn(each, 0.9)
    expect(suits(tale, suitability)).toBe(true)
    expect(suits('Write a Python function that reverses a string.', suitability)).toBe(false)
  })

  it('makes a kind of request unsuitable whose expansions are poor', () => {
    const suitability = new Suitability()
    for (const thing of ['sleep', 'exams', 'travel', 'cooking', 'chess', 'running', 'music', 'gardening', 'skiing', 'writing'])
      suitability.learn(`Give me some tips for better ${thing}.`, 0.2)
    expect(suits('Give me some tips for better photos.', suitability)).toBe(false)
  })

  it('changes nothing where it is just what was expected, or no number', () => {
    const suitability = new Suitability()
    suitability.learn(tale, Number.NaN)
    expect(suitability.judge(tale, 1)).toEqual(new Suitability().judge(tale, 1))
  })

  it('counts as good from a level that the operator sets', () => {
    const strict = new Suitability(undefined, { goodConfidence: 0.9 })
    for (const each of tales) strict.learn(each, 0.7)
    expect(suits(tale, strict)).toBe(false)
  })

  it('moves no weight beyond its bound, whatever is learnt', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...tales, 'a', '', '?'), fc.double()), { maxLength: 100 }), (lessons) => {
        const suitability = new Suitability(undefined, { maxChange: 0.5, rate: 50 })
        for (const [request, confidence] of lessons) suitability.learn(request, confidence)
        const { surface, buckets } = suitability.learnt
        expect([...surface, ...buckets].every((weight) => Math.abs(weight) <= 0.5)).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  it('is kept by a suitability that goes on with what another has learnt', () => {
    const first = new Suitability()
    for (const each of tales) first.learn(each, 0.8)
    expect(new Suitability(first.learnt).judge(tale, 1)).toEqual(first.judge(tale, 1))
  })
})

describe('exploration', () => {
  it('tries unsuitable requests now and then, clearly unsuitable ones hardly ever', () => {
    const suitability = new Suitability(undefined, { exploration: 0.1 })
    const share = (request: string) => {
      const tried = Array.from({ length: 400 }, (_, at) => suitability.judge(request, at / 400).suits)
      return tried.filter(Boolean).length / tried.length
    }
    const doubtful = 'Explain the process of inflation from beginning to end.'
    expect(share(doubtful)).toBeCloseTo(0.1 * (suitability.judge(doubtful, 1).probability / 0.5), 2)
    expect(share('Write a Python function that reverses a string.')).toBeLessThan(0.01)
  })
})
