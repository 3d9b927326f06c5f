/**
 * Deterministic noise: the same (seed, position, token) always gives the same value. So draft and LLM, decoding and
 * verification, and the replay after a failure choose the same token (Gumbel-max).
 *
 * Three keys are derived from seed and position. Each token passes two keyed rounds of a 32-bit finalizer with low bias
 * (Ellis, "hash-prospector", lowbias32). Tests check uniformity and independence.
 */
interface PositionNoise {
  /** The upper 32 bits of the token's uniform number, which suffice to exclude most tokens. */
  upper(token: number): number
  /** Standard Gumbel noise from 52 bits. @param upper the result of `upper(token)` */
  gumbel(token: number, upper: number): number
}

/**
 * @param seed any safe integer
 * @param position position of the chosen token in its sequence; the prompt's first token has 0
 */
export function positionNoise(seed: number, position: number): PositionNoise {
  const low = seed >>> 0
  const high = Math.floor(seed / 4_294_967_296) >>> 0
  const first = mix(mix(mix(low ^ 0x9e3779b9) ^ high) + position)
  const second = mix(first + 0x85ebca6b)
  const third = mix(second + 0xc2b2ae35)
  return {
    upper: (token) => mix(mix(token ^ first) + second) >>> 0,
    gumbel(token, upper) {
      const lower = mix(mix(token + third) ^ second) >>> 12
      return -Math.log(-Math.log((upper * 1_048_576 + lower + 0.5) / 4_503_599_627_370_496))
    },
  }
}

function mix(value: number): number {
  let x = value | 0
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad)
  x = Math.imul(x ^ (x >>> 15), 0xd35a2d97)
  return x ^ (x >>> 15)
}
