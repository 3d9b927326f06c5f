import { BrimError } from '../base/errors.ts'
import { positionNoise } from './noise.ts'

/** How a token is chosen from logits. Temperature first, then the k best, then the nucleus of what those leave. */
export interface Sampling {
  /** 0: the likeliest token (of equal ones the lowest id). */
  readonly temperature: number
  /** Only the k likeliest tokens (and those equal to the k-th); 0: all. */
  readonly topK: number
  /** Only the likeliest tokens that together hold this share of the probability, 0 < topP ≤ 1; 1: all. */
  readonly topP: number
  /** Any safe integer. */
  readonly seed: number
}

export const greedy: Sampling = { temperature: 0, topK: 0, topP: 1, seed: 0 }

/** @throws BrimError REQUEST_INVALID naming the setting */
export function checkSampling({ temperature, topK, topP, seed }: Sampling): void {
  const wrong = [
    !(temperature >= 0 && temperature < Number.POSITIVE_INFINITY) && `temperature ${temperature} must be a number ≥ 0`,
    !(Number.isInteger(topK) && topK >= 0) && `top-k ${topK} must be a whole number ≥ 0 (0: all tokens)`,
    !(topP > 0 && topP <= 1) && `top-p ${topP} must lie above 0 and at most at 1`,
    !Number.isSafeInteger(seed) && `seed ${seed} must be a whole number`,
  ].filter((line) => line !== false)
  if (wrong.length > 0) throw new BrimError('REQUEST_INVALID', wrong.join('; '), { hint: 'correct the sampling settings' })
}

/**
 * The token at `position`, a pure function of its arguments: argmax of logit/T + Gumbel noise keyed by (seed, position,
 * token), which has exactly the distribution softmax(logit/T) (DESIGN 'Exactness').
 * @param logits [vocab], one row
 * @throws BrimError RUNTIME_FAILED when the logits hold NaN or +Infinity
 */
export function chooseToken(logits: Float32Array, sampling: Sampling, position: number): number {
  const likeliest = argmax(logits)
  if (sampling.temperature === 0) return likeliest
  return bestPerturbed(logits, sampling, position, likeliest, logitFloor(logits, sampling, likeliest)).token
}

/**
 * What `chooseToken` says, and what it would say if it could not say that, and so on: different tokens, `count` of them at
 * most. The logits are the caller's to lose.
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

/** Probability of the likeliest token at temperature 1: what the draft's stop rule reads (HAT Eq. 5). */
export function topProbability(logits: Float32Array): number {
  const top = logits[argmax(logits)] as number
  let sum = 0
  for (let token = 0; token < logits.length; token++) sum += Math.exp((logits[token] as number) - top)
  return 1 / sum
}

/** The `count` likeliest tokens, the likeliest first; of equal ones the lowest id. */
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

/** Two ways of computing the same logits may differ by this much: choices that lie closer are near ties. */
export const nearTie = 0.01

/**
 * By how much (in logits) this row misses choosing `token`: 0 when it is the choice, otherwise how far the choice lies
 * above it, as perturbed scores times the temperature, and how far `token` lies below what top-k and top-p keep.
 * Where that border runs is tried both ways too: a change of `nearTie` in the logits moves the nucleus by about 0.005.
 */
export function choiceGap(logits: Float32Array, sampling: Sampling, position: number, token: number): number {
  const likeliest = argmax(logits)
  const logit = logits[token] as number
  if (sampling.temperature === 0) return likeliest === token ? 0 : (logits[likeliest] as number) - logit
  const gapAt = (kept: number): number => {
    const choice = bestPerturbed(logits, sampling, position, likeliest, kept)
    if (choice.token === token) return 0
    const noise = positionNoise(sampling.seed, position)
    const score = logit / sampling.temperature + noise.gumbel(token, noise.upper(token))
    return Math.max((choice.score - score) * sampling.temperature, kept - logit)
  }
  const kept = logitFloor(logits, sampling, likeliest)
  const own = gapAt(kept)
  if (own === 0) return 0
  const borders = sampling.topK > 0 ? [kept + nearTie] : []
  if (sampling.topP < 1)
    for (const topP of [Math.max(Number.MIN_VALUE, sampling.topP - 0.005), Math.min(1, sampling.topP + 0.005)])
      borders.push(logitFloor(logits, { ...sampling, topP }, likeliest))
  return Math.max(Number.MIN_VALUE, Math.min(own, ...borders.map(gapAt)))
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
  return new BrimError('RUNTIME_FAILED', `the model's logits hold ${what}`, {
    hint: 'run "brim model verify" on the bundle; a checkpoint that overflows needs another format',
  })
}

/** Gumbel noise from a uniform u ≤ 1 − e^−d is less than d (because 1 − x ≤ e^−x): that bound for whole d, in 32 bits. */
const noiseBound = Float64Array.from({ length: 48 }, (_, d) => Math.floor((1 - Math.exp(-d)) * 4_294_967_296) - 1)

/** argmax of logit/T + noise over the tokens with logit ≥ kept; of equal scores the lowest id. */
function bestPerturbed(logits: Float32Array, sampling: Sampling, position: number, likeliest: number, kept: number) {
  const noise = positionNoise(sampling.seed, position)
  const inverse = 1 / sampling.temperature
  const scoreOf = (token: number, upper: number) => (logits[token] as number) * inverse + noise.gumbel(token, upper)
  let best = likeliest
  let score = scoreOf(likeliest, noise.upper(likeliest))
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number
    if (logit < kept) continue
    const upper = noise.upper(token)
    // Most tokens lie so far below the best score that their noise, seen in its upper bits alone, cannot lift them there.
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

/** The smallest logit that top-k and top-p keep. */
function logitFloor(logits: Float32Array, { temperature, topK, topP }: Sampling, likeliest: number): number {
  const byCount = topK > 0 && topK < logits.length ? kthLargest(logits, topK) : Number.NEGATIVE_INFINITY
  return topP < 1 ? nucleusBorder(logits, { temperature, topP }, logits[likeliest] as number, byCount) : byCount
}

/** Bits of a logit that each pass over them settles, from the top. */
const digits = [
  { shift: 21, bins: 2048 },
  { shift: 10, bins: 2048 },
  { shift: 0, bins: 1024 },
] as const

/**
 * The smallest logit of the nucleus of those ≥ byCount, by radix selection: shares are summed by the upper bits of their
 * logits, then, within the one bin where the nucleus ends, by the next. Exact as a sort, and as quick for a flat
 * distribution as for a steep one.
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

/** A float's bits as an integer that sorts, unsigned, as the float does. */
function sortable(bits: number): number {
  return bits ^ ((bits >> 31) | -0x80000000)
}

/** The bin in which the sum from the last one downwards reaches `target`, and the sum of those above it. */
function binReaching(sums: Float64Array, target: number): { bin: number; above: number } {
  let above = 0
  let reached = { bin: sums.length - 1, above }
  for (let bin = sums.length - 1; bin >= 0; bin--) {
    const own = sums[bin] as number
    if (own === 0) continue
    // Rounding may leave the whole sum short of its own share: then it ends in the last bin that holds something.
    reached = { bin, above }
    above += own
    if (above >= target) break
  }
  return reached
}

/** By a heap of the k largest seen, its smallest at the root. */
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
