/**
 * Noise that is looked up, not drawn: the same (seed, position, token) always gives the same value, so that draft and
 * LLM, decoding and verification, and the replay after a failure all choose alike (Gumbel-max).
 *
 * Three keys are mixed from seed and position; every token then goes through two keyed rounds of a 32-bit finalizer
 * with low bias (Ellis, "hash-prospector", lowbias32). Tests check its uniformity and independence.
 */
export interface PositionNoise {
  /** The upper 32 bits of the token's uniform: all that is needed to rule out most tokens. */
  upper(token: number): number
  /** Standard Gumbel noise from 52 bits. @param upper what `upper(token)` gave */
  gumbel(token: number, upper: number): number
}

/**
 * @param seed any safe integer
 * @param position where the chosen token will stand in its sequence, 0 is the prompt's first token
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
