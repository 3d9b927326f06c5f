import { delayAt, type Knot } from '../estimate/monotone-curve.ts'

export interface ChunkConditions {
  /** Seconds that the device takes to bring one token's hidden state to the bridge: the slower of computing and sending it. */
  readonly tokenS: number
  /** g: knots of the delay of a cloud step by its tokens. */
  readonly g: readonly Knot[]
  /** μ: tokens that a step holds anyway. */
  readonly batchTokens: number
  /** P: steps that the cloud's pipeline has under way at once, >= 1. */
  readonly pipeline: number
}

export interface ChunkLimits {
  /** X_min and X_max in tokens, 1 <= least <= most; X_max is the cloud's token budget per step. */
  readonly least: number
  readonly most: number
}

/** A device's seconds per token, X·A/β_up = X·tokenS in Eq. 3, where its own prefill may be slower than its link. */
export function tokenSeconds(bytesPerToken: number, upBytesPerS: number, prefillTokensPerS: number): number {
  return Math.max(bytesPerToken / upBytesPerS, 1 / prefillTokensPerS)
}

/**
 * Tokens of a prompt per frame: X with X·A/β_up = (g(μ) + g(μ + X)) / P (HAT Eq. 3), so that a chunk is on its way for
 * as long as the one before it is computed. Left − right may have no, one or two roots (g may be shaped like a hinge);
 * we walk the knots of g and take the first change from negative to positive. Chunks that arrive slower than they are
 * computed at every size: X_min. Faster at every size: X_max.
 * @returns whole tokens, least..most
 */
export function chunkSize({ tokenS, g, batchTokens, pipeline }: ChunkConditions, { least, most }: ChunkLimits): number {
  const surplus = (x: number) => x * tokenS - (delayAt(g, batchTokens) + delayAt(g, batchTokens + x)) / pipeline
  const corners = g.map(({ tokens }) => tokens - batchTokens).filter((x) => x > least && x < most)
  let from = least
  if (surplus(from) >= 0) return least
  for (const to of [...corners, most]) {
    const [below, above] = [surplus(from), surplus(to)]
    // Straight between the two: the root by proportion.
    if (above >= 0) return Math.min(most, Math.max(least, Math.ceil(from + ((to - from) * -below) / (above - below))))
    from = to
  }
  return most
}

/**
 * The next frame's tokens. What is left after the last whole chunk rides with it: alone it would cost a step of its own,
 * and prefill in chunks would take longer than in one.
 * @param rest tokens of the prompt still to send, >= 1
 * @param chunk X
 * @param most X_max
 */
export function nextChunk(rest: number, chunk: number, most: number): number {
  return rest < 2 * chunk && rest <= most ? rest : Math.min(rest, chunk)
}

/** Whether a value has moved so far from what a decision was made on (by more than a fifth) that it is made anew. */
export function hasMoved(then: number, now: number): boolean {
  return Math.abs(now - then) > 0.2 * then
}
