import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { DraftAcceptance, type RatedGuess } from '../../../../core/policy/hat/draft-acceptance.ts'

const guess = (source: RatedGuess['source'], probability: number): RatedGuess => ({ source, probability })
const probability = fc.double({ min: 0, max: 1, noNaN: true })
const guesses = fc.array(fc.record({ source: fc.constantFrom('adapter' as const, 'lookup' as const), probability }), {
  maxLength: 16,
})

describe('how often guesses are right', () => {
  it('begins with what their source makes of them', () => {
    fc.assert(
      fc.property(probability, (p) => {
        expect(new DraftAcceptance().chanceOf([], guess('adapter', p))).toBeCloseTo(p, 12)
      }),
    )
  })

  it('converges to what verifications show, for each source, confidence and place on its own', () => {
    const random = seededRandom(3)
    const acceptance = new DraftAcceptance()
    // An adapter that is less certain than it says, a lookup whose later tokens are right where its first is.
    const rates = [0.9, 0.5, 0.3, 0.95] as const
    const drafts = [
      [guess('adapter', 0.99), guess('adapter', 0.3)],
      [guess('lookup', 0.75), guess('lookup', 0.75)],
    ] as const
    for (let round = 0; round < 4_000; round += 1) {
      for (const [which, draft] of drafts.entries()) {
        const right = [0, 1].map((at) => random.next() < rates[2 * which + at]!)
        acceptance.record(draft, right[0] ? (right[1] ? 2 : 1) : 0)
      }
    }
    const learned = drafts.flatMap((draft) => [acceptance.chanceOf([], draft[0]), acceptance.chanceOf([draft[0]], draft[1])])
    // The last hundred or so guesses count.
    for (const [at, rate] of rates.entries()) expect(Math.abs(learned[at]! - rate)).toBeLessThan(0.15)
    expect(learned[3]! - learned[2]!).toBeGreaterThan(0.4)
  })

  it('forgets: a source that was never right is trusted again soon', () => {
    const acceptance = new DraftAcceptance()
    const lookup = guess('lookup', 0.75)
    for (let round = 0; round < 500; round += 1) acceptance.record([lookup], 0)
    expect(acceptance.chanceOf([], lookup)).toBeLessThan(0.05)
    for (let round = 0; round < 200; round += 1) acceptance.record([lookup], 1)
    expect(acceptance.chanceOf([], lookup)).toBeGreaterThan(0.75)
  })

  it('is a chance, whatever is recorded, and goes on from what it knew', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(guesses, fc.nat(16)), { maxLength: 20 }), guesses, (rounds, draft) => {
        const acceptance = new DraftAcceptance()
        for (const [drafted, accepted] of rounds) acceptance.record(drafted, Math.min(accepted, drafted.length))
        const again = new DraftAcceptance(JSON.parse(JSON.stringify(acceptance.counts)))
        for (const [at, each] of draft.entries()) {
          const chance = acceptance.chanceOf(draft.slice(0, at), each)
          expect(chance >= 0 && chance <= 1).toBe(true)
          expect(again.chanceOf(draft.slice(0, at), each)).toBe(chance)
          expect(again.nextChance(at)).toBe(acceptance.nextChance(at))
        }
      }),
    )
  })
})
