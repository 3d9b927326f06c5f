import type { StepLine } from '../estimate/state-monitor.ts'

export interface ChunkConditions {
  /** Seconds that the device takes to bring one token's hidden state to the bridge: the slower of computing and sending it. */
  readonly tokenS: number
  /** g: seconds of a cloud step by its tokens. */
  readonly g: StepLine
  /** μ: tokens that a cloud step holds without this prompt. */
  readonly batchTokens: number
  /** P: steps that the cloud's pipeline computes at once, >= 1. */
  readonly pipeline: number
}

/** X_min and X_max, 1 <= minTokens <= maxTokens; X_max is the cloud's token budget per step. */
export interface ChunkLimits {
  readonly minTokens: number
  readonly maxTokens: number
}

/**
 * Seconds per token of Eq. 3's left side, A/β_up. Where the device's own prefill is slower than its link, that counts.
 * @param bytesPerToken A: bytes of a hidden state
 */
export function tokenSeconds(bytesPerToken: number, upBytesPerS: number, prefillTokensPerS: number): number {
  return Math.max(bytesPerToken / upBytesPerS, 1 / prefillTokensPerS)
}

/**
 * X, tokens of a prompt per frame (HAT Eq. 3): X·A/β_up = (g(μ) + g(μ + X)) / P, so that sending a chunk takes as long as
 * computing the one before it. Where a token is sent sooner than it is computed, no chunk is large enough: X_max.
 * @returns whole tokens, minTokens..maxTokens
 */
export function chunkSize({ tokenS, g, batchTokens, pipeline }: ChunkConditions, { minTokens, maxTokens }: ChunkLimits): number {
  const left = tokenS * pipeline - g.tokenS
  const computeS = 2 * (g.baseS + g.tokenS * batchTokens)
  if (!(left > 0)) return computeS > 0 ? maxTokens : minTokens
  return Math.min(maxTokens, Math.max(minTokens, Math.ceil(computeS / left)))
}

/**
 * Tokens of the next frame. The rest after the last whole chunk is sent with it: another step would cost more.
 * @param left tokens of the prompt still to send, >= 1
 * @param chunk X
 * @param maxTokens X_max
 */
export function nextChunk(left: number, chunk: number, maxTokens: number): number {
  return left < 2 * chunk && left <= maxTokens ? left : Math.min(left, chunk)
}

/** A device that computes so many times as fast as its link sends can prepare a chunk of twice the size of the one on its way. */
const maxGrowth = 2

/** How prompts go over a link, as the device has measured it. */
export interface PromptPace {
  readonly bytesPerToken: number
  readonly upBytesPerS?: number | undefined
  readonly prefillTokensPerS?: number | undefined
}

/** Whether the link, and by far not the device, limits how fast a prompt reaches the bridge. */
export function isLinkBound({ bytesPerToken, upBytesPerS, prefillTokensPerS }: PromptPace): boolean {
  if (upBytesPerS === undefined || prefillTokensPerS === undefined) return false
  return bytesPerToken / upBytesPerS >= maxGrowth / prefillTokensPerS
}

/**
 * Eq. 3, extended for prompts that wait for the link: chunks grow from X by doubling, and shrink to X again by halves of what is left.
 * Where X holds, the rest of a prompt hides the computing of as much: c·A/β_up >= 2·g(μ) + (g(μ + c) - g(μ)) for every c >= X. So the first token comes
 * about as soon as with chunks of X (later by less than g(4X) - g(X), tested), after a few steps of the cloud instead of many.
 * @param before tokens of the chunk before, 0 for the first
 */
export function growingChunk(left: number, chunk: number, before: number, maxTokens: number): number {
  const hidden = Math.min(maxGrowth * before, Math.floor(left / 2), maxTokens)
  return Math.max(hidden, nextChunk(left, chunk, maxTokens))
}

/** Whether a value has moved by more than a fifth since a decision was based on it: then the decision is made again. */
export function hasMoved(then: number, now: number): boolean {
  return Math.abs(now - then) > 0.2 * then
}
