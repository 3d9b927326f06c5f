import { describe, expect, it } from 'vitest'
import { expansionWork, requestedSketch } from '../../../agent/pice/plan-expansion.ts'
import { ExpandInput } from '../../../core/wire/protocol/jobs.ts'

const input = (sketch: object) => {
  const common = { prompt: 'Why?', sketch: ['one two', 'one two', 'one two three four'], expectedTokens: 80 }
  return ExpandInput.parse({ sketches: [{ ...common, ...sketch }] })
}
const groups = [0, 1].flatMap((candidate) =>
  [0, 1, 2].map((sentence) => ({ candidate, sample: candidate, sentences: [sentence] })),
)
const workFor = (given: ExpandInput) => expansionWork(given, [{ sketch: 0, groups }], () => 7)[0]!

describe('the work of a model', () => {
  it('bounds the expansion of each line by the share of its words', () => {
    // 20, 20 and 40 of 80 tokens.
    expect(workFor(input({})).lengths.map(({ max }) => max - 16)).toEqual([60, 60, 120])
    expect(requestedSketch(input({}).sketches[0]!)).toMatchObject({ words: [2, 2, 4], sentences: [0, 1, 2] })
  })

  it('draws other noise in each of its sequences', () => {
    const seeds = workFor(input({ candidates: 2, seed: 5 })).groups.map(({ sampling }) => sampling.seed)
    expect(new Set(seeds).size).toBe(seeds.length)
  })

  it('is hardly random, however random the client wants the answer', () => {
    const { groups } = workFor(input({ candidates: 2, temperature: 1.5 }))
    expect(new Set(groups.map(({ sampling }) => sampling.temperature))).toEqual(new Set([0.3]))
  })

  it('is greedy where the job asks for it, except for further samples', () => {
    const { groups } = workFor(input({ candidates: 2, temperature: 0 }))
    expect(groups.map(({ sampling }) => sampling.temperature > 0)).toEqual([false, false, false, true, true, true])
  })
})
