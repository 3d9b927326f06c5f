import type { Random } from '../../../../core/base/random.ts'
import { type DraftLimits, defaultDraftThreshold, draftEnds } from '../../../../core/policy/hat/draft-stop.ts'

/** A token that a drafter guesses. */
export interface DraftedToken {
  /** The draft model's probability of it. */
  readonly topProbability: number
  /** Whether the LLM chooses the same, where it follows tokens that the LLM has chosen. */
  readonly isRight: boolean
}

/** A drafter: how certain it is of its tokens, and how often they are right. */
export interface DraftProcess {
  next(random: Random): DraftedToken
}

/** A drafted chain. */
export interface Chain {
  readonly tokens: readonly DraftedToken[]
  /** Whether it is complete: HAT Eq. 5. */
  readonly ended: boolean
}

export const emptyChain: Chain = { tokens: [], ended: false }

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

/** The chain with one token more. */
export function extended({ tokens }: Chain, token: DraftedToken, limits: DraftLimits): Chain {
  const all = [...tokens, token]
  return { tokens: all, ended: draftEnds(probabilitiesOf(all), limits) }
}

const probabilitiesOf = (tokens: readonly DraftedToken[]) => tokens.map(({ topProbability }) => topProbability)

/** Whether nothing more is drafted after it. */
export const isComplete = ({ tokens, ended }: Chain, limits: DraftLimits): boolean =>
  ended || (tokens.length === 0 ? limits.limit === 0 : draftEnds(probabilitiesOf(tokens), limits))

/** Right tokens at its beginning. */
export function rightTokens(tokens: readonly DraftedToken[]): number {
  const wrong = tokens.findIndex(({ isRight }) => !isRight)
  return wrong < 0 ? tokens.length : wrong
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

/** Heads of Medusa. */
export const medusaHeads = 4

/** Medusa's tree: each depth is reached from the one above it with the same probability. */
export function medusaProcess(acceptLength: number): (random: Random) => number {
  const probability = medusaProbability(acceptLength)
  return (random) => {
    let right = 0
    while (right < medusaHeads && random.next() < probability) right += 1
    return right
  }
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
