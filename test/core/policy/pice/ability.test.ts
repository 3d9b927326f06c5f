import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Ability, abilityOf, judged, withRelevance, writesRubbish } from '../../../../core/policy/pice/ability.ts'
import { relevanceOf } from '../../../../core/policy/pice/relevance.ts'

const minuteMs = 60_000
const shown = (confidences: readonly number[], everyMs = 0) =>
  confidences.reduce<Ability | undefined>((before, confidence, at) => judged(before, confidence, at * everyMs), undefined)

describe('the ability of a small model', () => {
  it('is unknown before its first sentence, then the mean confidence', () => {
    expect(abilityOf(undefined, 0)).toBeUndefined()
    expect(abilityOf(shown([0.2]), 0)).toBe(0.2)
    expect(abilityOf(shown([0.2, 0.4, 0.9]), 0)).toBeCloseTo(0.5)
  })

  it('follows a model that has changed', () => {
    const good = shown([...Array<number>(1_000).fill(0.2), ...Array<number>(150).fill(0.8)])
    expect(abilityOf(good, 0)).toBeGreaterThan(0.75)
    expect(abilityOf(shown([0.2, 0.8], 30 * minuteMs), 30 * minuteMs)).toBeGreaterThan(0.7)
  })

  it('is unknown again in an hour without a sentence, sooner the fewer there were', () => {
    const [few, many] = [shown(Array(8).fill(0.1)), shown(Array(1_000).fill(0.1))]
    expect([few, many].map((ability) => abilityOf(ability, 29 * minuteMs))).toEqual([0.1, expect.closeTo(0.1)])
    expect([few, many].map((ability) => abilityOf(ability, 31 * minuteMs))).toEqual([undefined, expect.closeTo(0.1)])
    expect(abilityOf(many, 60 * minuteMs)).toBeUndefined()
  })

  it('stands still while the clock goes back', () => {
    expect(judged({ confidence: 0.4, sentences: 1, judgedMs: 1e9 }, 0.6, 0)).toEqual({
      confidence: 0.5,
      sentences: 2,
      judgedMs: 0,
    })
  })
})

describe('the relevance of sentences', () => {
  const log2 = fc.double({ min: -40, max: 0, noNaN: true })

  it('is between 0 and 1, and no less the more the question tells of the text', () => {
    fc.assert(
      fc.property(log2, log2, log2, (one, other, without) => {
        const [less, more] = [Math.min(one, other), Math.max(one, other)].map((likelihood) => relevanceOf(likelihood, without))
        return 0 <= less! && less! <= more! && more! <= 1
      }),
      { examples: [[0, -40, -40]] },
    )
  })

  it('is half where the question tells nothing, full or none where it tells half a bit a token for or against', () => {
    expect([-3, -2.5, -3.5].map((withQuestion) => relevanceOf(withQuestion, -3))).toEqual([0.5, 1, 0])
  })

  const claimed = shown(Array(20).fill(0.9))!

  it('lowers what a model has shown by itself, the more sentences speak against it', () => {
    const against = [1, 2, 5, 20].map((count) => withRelevance(claimed, shown(Array(count).fill(0)), 0).confidence)
    expect(against).toEqual([0.45, expect.closeTo(0.3), expect.closeTo(0.15), expect.closeTo(0.9 / 21)])
    expect(withRelevance(claimed, undefined, 0)).toEqual(claimed)
    expect(withRelevance(claimed, shown(Array(20).fill(1)), 0).confidence).toBeCloseTo(0.9)
  })

  it('unmasks a device that claims to be sure of sentences beside the question, until the check is forgotten', () => {
    const judgedAt = (nowMs: number) => withRelevance({ ...claimed, judgedMs: nowMs }, shown([0, 0, 0]), nowMs)
    expect(writesRubbish(judgedAt(0), 0)).toBe(true)
    expect(writesRubbish(judgedAt(60 * minuteMs), 60 * minuteMs)).toBe(false)
  })
})
