import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import {
  arrivalsOf,
  lengthLimits,
  lengthsOf,
  normalQuantile,
  promptOfLength,
  workloadOf,
} from '../../../lab/bench/hat/workload.ts'
import { paperPrompts } from '../../../lab/simulate/paper/hat/published.ts'

/** Dialogues of 10, 20, … tokens, each with an answer. */
const dialogues = Array.from({ length: 12 }, (_, i) => ({
  id: `d${i}`,
  task: 'talk',
  ids: Array.from({ length: 10 * (i + 1) }, (_, j) => 1_000 * (i + 1) + j),
  answerIds: [7, 8],
}))

describe('lengths of prompts', () => {
  it('have the given mean and deviation if no limit cuts them', () => {
    const lengths = lengthsOf({ mean: 400, deviation: 120 }, 400)
    const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length
    const deviation = Math.sqrt(lengths.reduce((sum, length) => sum + (length - mean) ** 2, 0) / lengths.length)
    expect(mean).toBeCloseTo(400, -1)
    expect(Math.abs(deviation - 120)).toBeLessThan(6)
  })

  it("are close to the paper's", () => {
    const long = lengthsOf(paperPrompts.long, 20)
    expect(Math.max(...long)).toBeLessThanOrEqual(lengthLimits.max)
    expect(long.reduce((sum, length) => sum + length, 0) / 20).toBeGreaterThan(950)
    const short = lengthsOf(paperPrompts.short, 20)
    expect(short[17]).toBeGreaterThan(600)
    expect(Math.min(...short)).toBeGreaterThanOrEqual(lengthLimits.min)
  })

  it.each([
    [0.5, 0],
    [0.9, 1.2816],
    [0.025, -1.96],
    [0.999, 3.0902],
  ])('follow the normal distribution: the quantile of %d is %d', (p, z) => {
    expect(normalQuantile(p)).toBeCloseTo(z, 3)
  })
})

describe('a prompt of a given length', () => {
  it('has exactly that length, ends with a question, and cuts only the first of the dialogues before it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 11 }), fc.integer({ min: 1, max: 900 }), (at, length) => {
        const { ids } = promptOfLength(dialogues, at, length, 2)
        expect(ids).toHaveLength(length)
        const question = dialogues.find(({ ids: own }) => own.at(-1) === ids.at(-1))
        expect(question).toBeDefined()
        const whole = Math.min(length, question!.ids.length)
        expect(ids.slice(-whole)).toEqual(question!.ids.slice(-whole))
      }),
    )
    expect(promptOfLength(dialogues.slice(0, 2), 0, 30 + 13, 2).ids.slice(-17)).toEqual([
      ...[2_015, 2_016, 2_017, 2_018, 2_019].slice(1),
      ...[7, 8, 2],
      ...dialogues[0]!.ids,
    ])
  })

  it('is the same for the same seed', () => {
    const of = (seed: number) => workloadOf(dialogues, 'short', 6, 2, seededRandom(seed))
    expect(of(3)).toEqual(of(3))
    expect(of(3)).not.toEqual(of(4))
  })
})

describe('arrivals', () => {
  it('come at the given rate, and use every prompt and device equally often', () => {
    const arrivals = arrivalsOf(4_000, 5, { devices: 8, prompts: 20 }, seededRandom(1))
    expect(arrivals.at(-1)!.atMs / 1_000).toBeGreaterThan(750)
    expect(arrivals.at(-1)!.atMs / 1_000).toBeLessThan(850)
    const gaps = arrivals.slice(1).map(({ atMs }, i) => atMs - arrivals[i]!.atMs)
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(0)
    // Of exponential gaps, a share of 1/e is longer than the mean.
    expect(gaps.filter((gap) => gap > 200).length / gaps.length).toBeCloseTo(Math.exp(-1), 1)
    for (let device = 0; device < 8; device++) expect(arrivals.filter((one) => one.device === device)).toHaveLength(500)
    for (let prompt = 0; prompt < 20; prompt++) expect(arrivals.filter((one) => one.prompt === prompt)).toHaveLength(200)
  })
})
