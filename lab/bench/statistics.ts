import { median } from '../../core/policy/estimate/quantile.ts'

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** Null of nothing. */
export const mean = (values: readonly number[]): number | null => (values.length === 0 ? null : sum(values) / values.length)

/** Null of nothing. */
export const medianOrNull = (values: readonly number[]): number | null => (values.length === 0 ? null : median(values))
