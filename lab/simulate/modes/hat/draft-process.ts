import type { Random } from '../../../../core/kit/base/random.ts'
import { defaultDraftThreshold } from '../../../../core/policy/hat/draft-gain.ts'

/** A token that a drafter guesses. */
export interface ChanceToken {
  /** The draft model's probability of it. */
  readonly topProbability: number
  /** Whether the LLM chooses the same, where it follows tokens that the LLM has chosen. */
  readonly isRight: boolean
}

/** A drafter: how certain it is of its tokens, and how often they are right. */
export interface DraftProcess {
  next(random: Random): ChanceToken
}

/** A drafter that knows how certain it is: of its tokens with probability p, a share of p is right. */
export function calibratedProcess(acceptLength: number): DraftProcess {
  const shape = shapeOf(acceptLength)
  return {
    next(random) {
      // The distribution with F(p) = p^shape.
      const topProbability = random.next() ** (1 / shape)
      return { topProbability, isRight: random.next() < topProbability }
    },
  }
}

/**
 * Expected tokens per verification, bonus included, of drafts without a limit that end below the default threshold η. Of all
 * tokens a share of a/(a+1) is right, and of these all but η^(a+1) are followed by another one.
 */
export function expectedAcceptLength(shape: number): number {
  const right = shape / (shape + 1)
  return 1 + right / (1 - right * (1 - defaultDraftThreshold ** (shape + 1)))
}

/** The shape a with this accept length, by bisection. */
export function shapeOf(acceptLength: number): number {
  let [low, high] = [1e-6, 1e3]
  for (let step = 0; step < 60; step += 1) {
    const middle = Math.sqrt(low * high)
    if (expectedAcceptLength(middle) < acceptLength) low = middle
    else high = middle
  }
  return high
}

export const medusaHeads = 4

/** A drafter of trees: how many tokens of the right path are in one. */
export interface TreeProcess {
  right(random: Random): number
}

/** Medusa's tree: each depth is reached from the one above it with the same probability. */
export function medusaProcess(acceptLength: number): TreeProcess {
  const probability = medusaProbability(acceptLength)
  return {
    right(random) {
      let right = 0
      while (right < medusaHeads && random.next() < probability) right += 1
      return right
    },
  }
}

/** The parents of Medusa's tree of 8 tokens (HAT §4.1), whose first nodes are the path of each head's likeliest token. */
const medusaParents = [-1, 0, 1, 2, -1, 0, -1, 1]
const depths = [1, 2, 3, 4, 1, 2, 1, 3]

/** The parents of the tree's nodes down to this depth. */
export function treeOf(maxDepth: number): readonly number[] {
  if (maxDepth >= medusaHeads) return medusaParents
  const kept = depths.flatMap((depth, node) => (depth <= maxDepth ? [node] : []))
  return kept.map((node) => kept.indexOf(medusaParents[node]!))
}

/** p with p + p² + p³ + p⁴ = accept length − 1. */
export function medusaProbability(acceptLength: number): number {
  let [low, high] = [0, 1]
  for (let step = 0; step < 50; step += 1) {
    const p = (low + high) / 2
    if (1 + p + p ** 2 + p ** 3 + p ** 4 < acceptLength) low = p
    else high = p
  }
  return high
}
