import { median, quantile } from '../../core/policy/estimate/quantile.ts'

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Null of nothing. */
export const mean = (values: readonly number[]): number | null => (values.length === 0 ? null : sum(values) / values.length)

/** Of a figure of each item; null of nothing. */
export const meanBy = <Item>(items: readonly Item[], value: (item: Item) => number): number | null => mean(items.map(value))

/** Null of nothing. */
export const medianOrNull = (values: readonly number[]): number | null => (values.length === 0 ? null : median(values))

/** Null of nothing. */
export const quantileOrNull = (values: readonly number[], q: number): number | null =>
  values.length === 0 ? null : quantile(values, q)

/** Null of nothing. */
export const maxOf = (values: readonly number[]): number | null => (values.length === 0 ? null : Math.max(...values))

/** A quotient; null where a value is missing or nothing can be divided. */
export const over = (value: number | null, other: number | null): number | null =>
  value === null || other === null || other === 0 ? null : value / other

/** In the order of each key's first item. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return [...groups.values()]
}

/** A mean over seeds and half of its 95 % confidence interval; null from one seed. */
export interface ConfidenceInterval {
  readonly mean: number
  readonly half: number | null
}

export function intervalOf(values: readonly number[]): ConfidenceInterval | null {
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
