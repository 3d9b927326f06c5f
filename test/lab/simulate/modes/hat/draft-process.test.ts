import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../../core/kit/base/random.ts'
import { emptyChain, extended } from '../../../../../core/policy/hat/draft-chain.ts'
import { thresholdRule } from '../../../../../core/policy/hat/draft-rounds.ts'
import {
  type ChanceToken,
  calibratedProcess,
  medusaProcess,
  treeOf,
} from '../../../../../lab/simulate/modes/hat/draft-process.ts'

const limits = thresholdRule(0.6, 64)

/** Mean over many rounds. */
function mean(rounds: number, of: () => number): number {
  let sum = 0
  for (let round = 0; round < rounds; round += 1) sum += of()
  return sum / rounds
}

function draft(next: () => ChanceToken, rule = limits) {
  const tokens: ChanceToken[] = []
  for (let chain = emptyChain; !chain.ended; ) {
    const token = next()
    tokens.push(token)
    chain = extended(chain, [{ source: 'adapter', probability: token.topProbability, endsText: false, alternatives: [] }], rule)
  }
  return tokens
}

/** Right tokens at its beginning. */
function rightTokens(tokens: readonly ChanceToken[]): number {
  const wrong = tokens.findIndex(({ isRight }) => !isRight)
  return wrong < 0 ? tokens.length : wrong
}

describe('a drafter of a given accept length', () => {
  it.each([1.4, 1.98, 2.06, 3.5])('gains %f tokens per verification, its bonus included', (acceptLength) => {
    const random = seededRandom(7)
    const drafter = calibratedProcess(acceptLength)
    const gained = mean(40_000, () => 1 + rightTokens(draft(() => drafter.next(random))))
    expect(Math.abs(gained / acceptLength - 1)).toBeLessThan(0.015)
  })

  it('is as often right as it says', () => {
    const random = seededRandom(3)
    const drafter = calibratedProcess(2.06)
    const tokens = Array.from({ length: 40_000 }, () => drafter.next(random))
    for (const from of [0.2, 0.4, 0.6, 0.8]) {
      const alike = tokens.filter(({ topProbability }) => topProbability >= from && topProbability < from + 0.2)
      const right = alike.filter(({ isRight }) => isRight).length / alike.length
      expect(right).toBeGreaterThan(from)
      expect(right).toBeLessThan(from + 0.2)
    }
  })

  it('drafts longer, and gains more per round, at a lower threshold', () => {
    const random = seededRandom(5)
    const drafter = calibratedProcess(2.06)
    const at = (threshold: number) =>
      Array.from({ length: 4_000 }, () => draft(() => drafter.next(random), thresholdRule(threshold, limits.limit)))
    const [low, high] = [at(0.3), at(0.9)]
    const length = (drafts: (readonly ChanceToken[])[]) => drafts.reduce((sum, tokens) => sum + tokens.length, 0) / drafts.length
    const right = (drafts: (readonly ChanceToken[])[]) =>
      drafts.reduce((sum, tokens) => sum + rightTokens(tokens), 0) / drafts.length
    expect(length(low)).toBeGreaterThan(length(high))
    expect(right(low)).toBeGreaterThan(right(high))
  })

  it('gains as many tokens with a tree of Medusa', () => {
    const random = seededRandom(9)
    const tree = medusaProcess(1.89)
    expect(Math.abs(mean(40_000, () => 1 + tree.right(random)) - 1.89)).toBeLessThan(0.02)
    expect(Math.max(...Array.from({ length: 4_000 }, () => tree.right(random)))).toBe(4)
  })
  it('has a tree of Medusa as deep as an answer can still be, whose first nodes are its likeliest path', () => {
    const trees = [1, 2, 3, 4, 9].map(treeOf)
    expect(trees.map(({ length }) => length)).toEqual([3, 5, 7, 8, 8])
    for (const [at, parents] of trees.entries()) {
      const path = Math.min(at + 1, 4)
      expect(parents.slice(0, path)).toEqual([-1, 0, 1, 2].slice(0, path))
      // Parents come before their children.
      for (const [node, parent] of parents.entries()) expect(parent).toBeLessThan(node)
    }
  })
})
