import { BrimError } from '../../kit/base/errors.ts'
import { masked, type TokenMask } from '../grammar/grammar.ts'
import { positionNoise } from './noise.ts'

/** How a token is chosen from logits: penalties first, then temperature, top-k, top-p among the rest, and min-p. */
export interface Sampling {
  /** 0: the likeliest token, the lowest id among equal ones. */
  readonly temperature: number
  /** Only the k likeliest tokens and those equal to the k-th; 0: all. */
  readonly topK: number
  /** Only the likeliest tokens that together have this probability, 0 < topP ≤ 1; 1: all. */
  readonly topP: number
  /** Only tokens that are at least this many times as probable as the likeliest, 0..1. Default: 0, all. */
  readonly minP?: number
  /** Subtracted from the logit of every token that the answer has already, −2..2. Default: 0. */
  readonly presencePenalty?: number
  /** Subtracted from a token's logit once for each time that the answer has it already, −2..2. Default: 0. */
  readonly frequencyPenalty?: number
  /** Any safe integer. */
  readonly seed: number
}

export const greedy: Sampling = { temperature: 0, topK: 0, topP: 1, seed: 0 }

/** As at OpenAI. */
const maxPenalty = 2

/** @throws BrimError REQUEST_INVALID naming the setting */
export function checkSampling(sampling: Sampling): void {
  const { temperature, topK, topP, minP = 0, presencePenalty = 0, frequencyPenalty = 0, seed } = sampling
  const isPenalty = (value: number) => value >= -maxPenalty && value <= maxPenalty
  const wrong = [
    !(temperature >= 0 && temperature < Number.POSITIVE_INFINITY) && `temperature is ${temperature}; it must be a number ≥ 0`,
    !(Number.isInteger(topK) && topK >= 0) && `top-k is ${topK}; it must be an integer ≥ 0 (0: all tokens)`,
    !(topP > 0 && topP <= 1) && `top-p is ${topP}; it must be greater than 0 and at most 1`,
    !(minP >= 0 && minP <= 1) && `min-p is ${minP}; it must be 0 to 1`,
    !isPenalty(presencePenalty) && `the presence penalty is ${presencePenalty}; it must be -${maxPenalty} to ${maxPenalty}`,
    !isPenalty(frequencyPenalty) && `the frequency penalty is ${frequencyPenalty}; it must be -${maxPenalty} to ${maxPenalty}`,
    !Number.isSafeInteger(seed) && `seed is ${seed}; it must be an integer`,
  ].filter((line) => line !== false)
  if (wrong.length > 0) throw new BrimError('REQUEST_INVALID', wrong.join('; '), { hint: 'correct the sampling settings' })
}

/**
 * Chooses the token at `position`: the argmax of logit/T + Gumbel noise keyed by (seed, position, token). Its distribution
 * is exactly softmax(logit/T).
 * @param row logits, [vocab]
 * @param answered the answer's tokens before `position`, which penalties count; prompts are not penalised
 * @param mask the tokens that may come; undefined: all
 * @throws BrimError RUNTIME_FAILED if the logits contain NaN or +Infinity
 */
export function chooseToken(
  row: Float32Array,
  sampling: Sampling,
  position: number,
  answered: readonly number[] = [],
  mask?: TokenMask,
): number {
  const logits = candidates(row, sampling, answered, mask)
  const likeliest = argmax(logits)
  if (sampling.temperature === 0) return likeliest
  return bestPerturbed(logits, sampling, position, likeliest, logitFloor(logits, sampling, likeliest)).token
}

/**
 * At most `count` different tokens: the choice of `chooseToken`, its choice without that token, and so on.
 * @param logits [vocab], overwritten
 */
export function chooseTokens(logits: Float32Array, sampling: Sampling, position: number, count: number): number[] {
  const chosen: number[] = []
  while (chosen.length < count && (chosen.length === 0 || logits.some(Number.isFinite))) {
    const token = chooseToken(logits, sampling, position)
    chosen.push(token)
    logits[token] = Number.NEGATIVE_INFINITY
  }
  return chosen
}

/** Probability of the likeliest token at temperature 1, for the draft's stop rule (HAT Eq. 5). */
export function topProbability(logits: Float32Array): number {
  const top = logits[argmax(logits)] as number
  let sum = 0
  for (let token = 0; token < logits.length; token++) sum += Math.exp((logits[token] as number) - top)
  return 1 / sum
}

/** The `count` likeliest tokens in descending order; equal ones by ascending id. */
export function likeliestTokens(logits: Float32Array, count: number): number[] {
  const best: number[] = []
  for (let token = 0; token < logits.length; token++) {
    let at = best.length
    while (at > 0 && (logits[best[at - 1]!] as number) < (logits[token] as number)) at--
    if (at < count) {
      best.splice(at, 0, token)
      best.length = Math.min(best.length, count)
    }
  }
  return best
}

/** Choices whose logits differ by less are near ties: verification and decoding may differ by this much. */
export const nearTie = 0.01

/**
 * The distance in logits between `token` and the choice: 0 for the choice itself. Otherwise the larger of the difference of
 * the perturbed scores times the temperature and the distance of `token` below the limit of top-k and top-p. The limit is
 * also tried slightly higher and lower, because a change of `nearTie` in the logits moves the nucleus by about 0.005.
 */
export function choiceGap(
  row: Float32Array,
  sampling: Sampling,
  position: number,
  token: number,
  answered: readonly number[] = [],
  mask?: TokenMask,
): number {
  const logits = candidates(row, sampling, answered, mask)
  const likeliest = argmax(logits)
  const logit = logits[token] as number
  if (sampling.temperature === 0) return likeliest === token ? 0 : (logits[likeliest] as number) - logit
  const gapAt = (floor: number): number => {
    const choice = bestPerturbed(logits, sampling, position, likeliest, floor)
    if (choice.token === token) return 0
    const noise = positionNoise(sampling.seed, position)
    const score = logit / sampling.temperature + noise.gumbel(token, noise.upper(token))
    return Math.max((choice.score - score) * sampling.temperature, floor - logit)
  }
  const floor = logitFloor(logits, sampling, likeliest)
  const own = gapAt(floor)
  if (own === 0) return 0
  const borders = sampling.topK > 0 || (sampling.minP ?? 0) > 0 ? [floor + nearTie] : []
  if (sampling.topP < 1)
    for (const topP of [Math.max(Number.MIN_VALUE, sampling.topP - 0.005), Math.min(1, sampling.topP + 0.005)])
      borders.push(logitFloor(logits, { ...sampling, topP }, likeliest))
  return Math.max(Number.MIN_VALUE, Math.min(own, ...borders.map(gapAt)))
}

/** The logits that the next token is chosen from: `row` itself where all tokens may come and nothing is penalised. */
function candidates(
  row: Float32Array,
  sampling: Sampling,
  answered: readonly number[],
  mask: TokenMask | undefined,
): Float32Array {
  return penalised(mask ? masked(row, mask) : row, sampling, answered)
}

function penalised(logits: Float32Array, sampling: Sampling, answered: readonly number[]): Float32Array {
  const { presencePenalty = 0, frequencyPenalty = 0 } = sampling
  if (answered.length === 0 || (presencePenalty === 0 && frequencyPenalty === 0)) return logits
  const counts = new Map<number, number>()
  for (const token of answered) counts.set(token, (counts.get(token) ?? 0) + 1)
  const row = logits.slice()
  for (const [token, count] of counts) row[token] = (row[token] as number) - presencePenalty - count * frequencyPenalty
  return row
}

function argmax(logits: Float32Array): number {
  let best = -1
  let top = Number.NEGATIVE_INFINITY
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number
    if (logit > top) {
      top = logit
      best = token
    } else if (Number.isNaN(logit)) throw invalidLogits(`NaN at token ${token}`)
  }
  if (best < 0) throw invalidLogits('no finite value')
  if (top === Number.POSITIVE_INFINITY) throw invalidLogits(`Infinity at token ${best}`)
  return best
}

function invalidLogits(what: string): BrimError {
  return new BrimError('RUNTIME_FAILED', `the model's logits contain ${what}`, {
    hint: 'run "brim model verify" on the bundle; if the checkpoint overflows, build it with another --format',
  })
}

/** By integer d, the largest upper 32 bits of a uniform u ≤ 1 − e^−d. Gumbel noise from such u is below d, as 1 − x ≤ e^−x. */
const noiseBound = Float64Array.from({ length: 48 }, (_, d) => Math.floor((1 - Math.exp(-d)) * 4_294_967_296) - 1)

/** The argmax of logit/T + noise over the tokens with logit ≥ `floor`; the lowest id among equal scores. */
function bestPerturbed(logits: Float32Array, sampling: Sampling, position: number, likeliest: number, floor: number) {
  const noise = positionNoise(sampling.seed, position)
  const inverse = 1 / sampling.temperature
  const scoreOf = (token: number, upper: number) => (logits[token] as number) * inverse + noise.gumbel(token, upper)
  let best = likeliest
  let score = scoreOf(likeliest, noise.upper(likeliest))
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number
    if (logit < floor) continue
    const upper = noise.upper(token)
    // Most tokens cannot reach the best score, which the upper bits of their noise already show.
    const missing = score - logit * inverse
    if (missing >= 1 && upper <= (noiseBound[Math.min(47, Math.floor(missing))] as number)) continue
    const own = scoreOf(token, upper)
    if (own > score || (own === score && token < best)) {
      score = own
      best = token
    }
  }
  return { token: best, score }
}

/** The smallest logit that top-k, top-p and min-p allow. */
function logitFloor(logits: Float32Array, { temperature, topK, topP, minP = 0 }: Sampling, likeliest: number): number {
  const top = logits[likeliest] as number
  const byCount = topK > 0 && topK < logits.length ? kthLargest(logits, topK) : Number.NEGATIVE_INFINITY
  const byNucleus = topP < 1 ? nucleusBorder(logits, { temperature, topP }, top, byCount) : byCount
  return Math.max(byNucleus, top + temperature * Math.log(minP))
}

/** Bits of a logit that each pass of the radix selection fixes, from the top. */
const digits = [
  { shift: 21, bins: 2048 },
  { shift: 10, bins: 2048 },
  { shift: 0, bins: 1024 },
] as const

/**
 * The smallest logit in the nucleus of those ≥ byCount, by radix selection: probabilities are summed in bins by the upper
 * bits of their logits, then by the next bits within the bin where the nucleus ends. It is as exact as a sort, and as fast
 * for flat distributions as for steep ones.
 */
function nucleusBorder(
  logits: Float32Array,
  { temperature, topP }: Pick<Sampling, 'temperature' | 'topP'>,
  top: number,
  byCount: number,
): number {
  const bits = new Int32Array(logits.buffer, logits.byteOffset, logits.length)
  let target: number | undefined
  let prefix = 0
  let settled = 0
  for (const { shift, bins } of digits) {
    const sums = new Float64Array(bins)
    for (let token = 0; token < logits.length; token++) {
      const key = sortable(bits[token] as number)
      const logit = logits[token] as number
      if ((key & settled) !== prefix || logit < byCount) continue
      const bin = (key >>> shift) & (bins - 1)
      sums[bin] = (sums[bin] as number) + Math.exp((logit - top) / temperature)
    }
    target ??= topP * sums.reduce((total, sum) => total + sum, 0)
    const { bin, above } = binReaching(sums, target)
    target -= above
    prefix |= bin << shift
    settled |= (bins - 1) << shift
  }
  return new Float32Array(Int32Array.of(prefix < 0 ? prefix ^ -0x80000000 : ~prefix).buffer)[0] as number
}

/** Maps a float's bits to an unsigned integer of the same order. */
function sortable(bits: number): number {
  return bits ^ ((bits >> 31) | -0x80000000)
}

/** The bin in which the sum from the last bin downwards reaches `target`, and the sum of the bins above it. */
function binReaching(sums: Float64Array, target: number): { bin: number; above: number } {
  let above = 0
  let reached = { bin: sums.length - 1, above }
  for (let bin = sums.length - 1; bin >= 0; bin--) {
    const own = sums[bin] as number
    if (own === 0) continue
    // If rounding leaves the total below the target, the last non-empty bin is taken.
    reached = { bin, above }
    above += own
    if (above >= target) break
  }
  return reached
}

/** The k-th largest logit, by a min-heap of the k largest. */
function kthLargest(logits: Float32Array, k: number): number {
  const heap = logits.slice(0, k).sort()
  for (let token = k; token < logits.length; token++) {
    const logit = logits[token] as number
    if (logit <= (heap[0] as number)) continue
    let at = 0
    for (let child = 1; child < k; child = 2 * at + 1) {
      if (child + 1 < k && (heap[child + 1] as number) < (heap[child] as number)) child++
      if ((heap[child] as number) >= logit) break
      heap[at] = heap[child] as number
      at = child
    }
    heap[at] = logit
  }
  return heap[0] as number
}
