import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import type { RatedGuess } from '../../../../core/policy/hat/draft-acceptance.ts'
import { emptyChain, extended, isComplete } from '../../../../core/policy/hat/draft-chain.ts'
import type { RoundCosts } from '../../../../core/policy/hat/draft-gain.ts'
import { DraftRounds, type DraftRule, thresholdRule } from '../../../../core/policy/hat/draft-rounds.ts'

const limit = 15
const near: RoundCosts = { fixedS: 0.03, draftS: 0.004, rowS: 0.0005 }
const adapter = (probability: number): RatedGuess => ({ source: 'adapter', probability })

/** The guesses that a draft takes of these, one after the other. */
function draftOf(rule: DraftRule, guesses: readonly RatedGuess[]): RatedGuess[] {
  let chain = emptyChain
  for (const guess of guesses) {
    if (isComplete(chain, rule)) break
    chain = extended(chain, [{ ...guess, endsText: false, alternatives: [] }], rule)
  }
  return [...chain.guesses]
}

/** Rounds of which so many tokens of each draft are right. */
function learned(rounds: number, costs: RoundCosts, accepted: (drafted: number) => number, p = 0.8): DraftRounds {
  const drafts = new DraftRounds()
  for (let round = 0; round < rounds; round += 1) record(drafts, draftOf(drafts.rule(costs, limit), many(p)), accepted)
  return drafts
}
const many = (p: number) => Array.from({ length: 20 }, () => adapter(p))
function record(drafts: DraftRounds, draft: readonly RatedGuess[], accepted: (drafted: number) => number): void {
  const right = accepted(draft.length)
  drafts.record({ tokens: 1 + right, draft, prepared: 0, accepted: right, overheadS: 0.004, feedS: 0.002 })
}

describe('the length of drafts', () => {
  it('is never shorter where the delay is longer, with the same guesses and the same that was learned', () => {
    const seconds = fc.double({ min: 0, max: 10, noNaN: true })
    const costs = fc.record({ fixedS: seconds, draftS: fc.option(seconds, { nil: undefined }), rowS: seconds })
    const probabilities = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 20, maxLength: 20 })
    const history = fc.tuple(fc.nat(40), fc.double({ min: 0, max: 1, noNaN: true }), fc.integer())
    fc.assert(
      fc.property(costs, seconds, probabilities, history, fc.constantFrom('round', 'ahead'), (now, moreS, ps, known, when) => {
        const [rounds, share, seed] = known
        const random = seededRandom(seed)
        const drafts = learned(rounds, near, (drafted) => Math.floor(random.next() * share * (drafted + 1)))
        const guesses = ps.map(adapter)
        // What was not measured is assumed in proportion: a longer delay then says that a token takes longer, too.
        const known1 = { ...now, draftS: now.draftS ?? 0.01 }
        const [short, long] = [known1, { ...known1, fixedS: known1.fixedS + moreS }].map(
          (each) => draftOf(drafts.rule(each, limit, when), guesses).length,
        )
        expect(long!).toBeGreaterThanOrEqual(short!)
        for (const length of [short!, long!, draftOf(drafts.rule(now, limit, when), guesses).length]) {
          expect(length >= 0 && length <= limit).toBe(true)
        }
      }),
    )
  })

  it('is sane before anything is known: some tokens, fewer the less certain they are, and no more than the limit', () => {
    for (const nothing of [
      { fixedS: 0, draftS: undefined, rowS: 0 },
      { fixedS: 0.05, draftS: undefined, rowS: 0.001 },
    ]) {
      const lengths = [0, 0.05, 0.5, 0.8, 1].map((p) => draftOf(new DraftRounds().rule(nothing, limit), many(p)).length)
      expect(lengths).toEqual([...lengths].sort((a, b) => a - b))
      expect(lengths[0]).toBe(0)
      expect(lengths[2]).toBeGreaterThanOrEqual(1)
      expect(lengths[2]).toBeLessThanOrEqual(3)
      expect(lengths[4]).toBeLessThanOrEqual(limit)
    }
  })

  it('is 0 where nothing is ever right, but for one token in sixteen rounds, which finds out when that changes', () => {
    const drafts = learned(200, near, () => 0)
    const lengths = Array.from({ length: 64 }, () => {
      const draft = draftOf(drafts.rule(near, limit), many(0.8))
      record(drafts, draft, () => 0)
      return draft.length
    })
    expect(lengths.filter((length) => length > 0)).toEqual([1, 1, 1, 1])
    for (let round = 0; round < 300; round += 1)
      record(drafts, draftOf(drafts.rule(near, limit), many(0.8)), (drafted) => drafted)
    expect(draftOf(drafts.rule(near, limit), many(0.8)).length).toBeGreaterThan(2)
  })

  it('is the limit where all is right, and where a round takes long', () => {
    expect(draftOf(learned(200, near, (drafted) => drafted, 0.99).rule(near, limit), many(0.99))).toHaveLength(limit)
    const far = { ...near, fixedS: 3 }
    expect(draftOf(learned(50, far, (drafted) => drafted).rule(far, limit), many(0.9))).toHaveLength(limit)
  })

  it('goes on while the device would wait anyway, where a token of the round does not pay', () => {
    const drafts = learned(50, near, (drafted) => Math.min(1, drafted))
    const [round, ahead] = (['round', 'ahead'] as const).map((when) => draftOf(drafts.rule(near, limit, when), many(0.6)).length)
    expect(ahead!).toBeGreaterThan(round!)
  })

  it('follows what was learned before, as plain data', () => {
    const before = learned(100, near, (drafted) => Math.min(2, drafted))
    const after = new DraftRounds(JSON.parse(JSON.stringify(before.history)))
    expect(draftOf(after.rule(near, limit), many(0.8))).toEqual(draftOf(before.rule(near, limit), many(0.8)))
    expect(after.overheadS).toBeCloseTo(0.004, 9)
  })
})

/** Tokens per second of rounds with these costs, whose drafter knows how certain it is. */
function rateOf({ fixedS, draftS = 0, rowS }: RoundCosts, threshold: number | undefined): number {
  const random = seededRandom(7)
  const drafts = new DraftRounds()
  let [tokens, seconds] = [0, 0]
  for (let round = 0; round < 4_000; round += 1) {
    const rule = threshold === undefined ? drafts.rule({ fixedS, draftS, rowS }, limit) : thresholdRule(threshold, limit)
    let chain = emptyChain
    let [guessed, accepted, isRight] = [0, 0, true]
    while (!isComplete(chain, rule)) {
      const probability = random.next() ** 0.5
      const before = chain.guesses.length
      chain = extended(chain, [{ ...adapter(probability), endsText: false, alternatives: [] }], rule)
      guessed += 1
      isRight &&= random.next() < probability
      if (isRight && chain.guesses.length > before) accepted += 1
    }
    const draft = chain.guesses
    drafts.record({ tokens: accepted + 1, draft, prepared: 0, accepted, overheadS: 0, feedS: draftS / 2 })
    tokens += accepted + 1
    // Guess and row have half of a step each.
    seconds += fixedS + (draftS / 2) * (guessed + draft.length) + rowS * draft.length
  }
  return tokens / seconds
}

describe('drafts that end by their gain', () => {
  it.each([
    { fixedS: 0.05, draftS: 0.002, rowS: 0 },
    { fixedS: 0.05, draftS: 0.01, rowS: 0 },
    { fixedS: 0.05, draftS: 0.01, rowS: 0.02 },
    { fixedS: 0.3, draftS: 0.01, rowS: 0.001 },
  ])('gain as many tokens per second as with the best threshold: $fixedS s a round, $draftS s a step', (costs) => {
    const best = Math.max(...[0.2, 0.4, 0.6, 0.8].map((threshold) => rateOf(costs, threshold)))
    expect(rateOf(costs, undefined)).toBeGreaterThan(0.98 * best)
  })
})
