import { median } from '../../core/policy/estimate/quantile.ts'

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Null of nothing. */
export const mean = (values: readonly number[]): number | null => (values.length === 0 ? null : sum(values) / values.length)

/** Null of nothing. */
export const medianOrNull = (values: readonly number[]): number | null => (values.length === 0 ? null : median(values))

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
