import type { TokenMask } from '../grammar/grammar.ts'
import { chooseToken, likeliestTokens, type Sampling } from './sampler.ts'

/** A token and its natural log probability. */
export interface ScoredToken {
  readonly token: number
  readonly logprob: number
}

/** How probable a chosen token was. */
export interface TokenLogprobs extends ScoredToken {
  /** The likeliest tokens at its position, in descending order. */
  readonly top: readonly ScoredToken[]
}

/**
 * The model's own distribution: softmax of the logits at temperature 1, before penalties and limits, as at OpenAI and vLLM.
 * @param logits [vocab], one row
 * @param count of the likeliest tokens
 */
export function logprobsOf(logits: Float32Array, token: number, count: number): TokenLogprobs {
  const likeliest = likeliestTokens(logits, Math.max(1, count))
  const top = logits[likeliest[0]!] as number
  let sum = 0
  for (let at = 0; at < logits.length; at++) sum += Math.exp((logits[at] as number) - top)
  const logNorm = top + Math.log(sum)
  const scored = (id: number): ScoredToken => ({ token: id, logprob: (logits[id] as number) - logNorm })
  return { ...scored(token), top: likeliest.slice(0, count).map(scored) }
}

/** e^−(i / steps), by whole steps; beyond the last it is taken for 0. */
const steps = 512
const powers = Float64Array.from({ length: 32 * steps }, (_, i) => Math.exp(-i / steps))

/**
 * log2 of a token's probability, as `logprobsOf` has it, with an error below 0.00001: each term is interpolated between steps,
 * because `Math.exp` of a whole vocabulary takes longer than a packed step of a small model.
 * @param logits [vocab], one row
 */
export function log2Probability(logits: Float32Array, token: number): number {
  let top = Number.NEGATIVE_INFINITY
  for (let at = 0; at < logits.length; at++) if ((logits[at] as number) > top) top = logits[at] as number
  let sum = 0
  for (let at = 0; at < logits.length; at++) {
    const distance = (top - (logits[at] as number)) * steps
    const nearest = (distance + 0.5) | 0
    if (distance < powers.length - 1) sum += (powers[nearest] as number) * (1 + (nearest - distance) / steps)
  }
  return Math.min(0, ((logits[token] as number) - top - Math.log(sum)) * Math.LOG2E)
}

export interface TokenChoice {
  readonly token: number
  /** Present where they were asked for. */
  readonly logprobs?: TokenLogprobs
}

/**
 * As `chooseToken`.
 * @param logprobs of how many likeliest tokens log probabilities are reported, beside that of the choice; undefined: none
 */
export function choose(
  logits: Float32Array,
  { sampling, logprobs }: { readonly sampling: Sampling; readonly logprobs?: number | undefined },
  position: number,
  answered: readonly number[],
  mask?: TokenMask,
): TokenChoice {
  const token = chooseToken(logits, sampling, position, answered, mask)
  return logprobs === undefined ? { token } : { token, logprobs: logprobsOf(logits, token, logprobs) }
}
