/** A mean and the ends of its 95 % interval. */
export interface BootstrapInterval {
  readonly mean: number
  readonly low: number
  readonly high: number
}

const resamples = 1_000

/**
 * The percentile bootstrap of a mean: of samples that are drawn again, with replacement. Undefined of nothing.
 * @param random 0..1
 */
export function bootstrapMean(values: readonly number[], random: () => number): BootstrapInterval | undefined {
  if (values.length === 0) return undefined
  const meanOf = (value: (at: number) => number) => values.reduce((sum, _, at) => sum + value(at), 0) / values.length
  const drawn = Array.from({ length: resamples }, () => meanOf(() => values[Math.floor(random() * values.length)]!))
  drawn.sort((a, b) => a - b)
  const at = (share: number) => drawn[Math.round(share * (resamples - 1))]!
  return { mean: meanOf((index) => values[index]!), low: at(0.025), high: at(0.975) }
}
