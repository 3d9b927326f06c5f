import { mean, sum } from '../statistics.ts'

/** A mean over seeds and half of its 95 % confidence interval; null from one seed. */
export interface Interval {
  readonly mean: number
  readonly half: number | null
}

export function intervalOf(values: readonly number[]): Interval | null {
  const middle = mean(values)
  if (middle === null) return null
  const n = values.length
  if (n < 2) return { mean: middle, half: null }
  const variance = sum(values.map((value) => (value - middle) ** 2)) / (n - 1)
  return { mean: middle, half: studentQuantile(n - 1) * Math.sqrt(variance / n) }
}

/** The 0.975 quantile of Student's t, by the expansion around the normal quantile; within 1 % from four degrees of freedom. */
function studentQuantile(freedom: number): number {
  const z = 1.959964
  return z + (z ** 3 + z) / (4 * freedom) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2)
}
