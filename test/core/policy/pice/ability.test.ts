import { describe, expect, it } from 'vitest'
import { type Ability, abilityOf, judged } from '../../../../core/policy/pice/ability.ts'

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
