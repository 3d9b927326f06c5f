/** The q-quantile (0 ≤ q ≤ 1) with linear interpolation between order statistics; NaN of nothing. */
export const quantile = (values: readonly number[], q: number): number => quantileWithZeros(values, 0, q)

/** The quantile of these values and so many zeros beside them. @param values ≥ 0 where there are zeros */
export function quantileWithZeros(values: readonly number[], zeros: number, q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  if (sorted.length + zeros === 0) return Number.NaN
  const valueAt = (index: number) => (index < zeros ? 0 : (sorted[index - zeros] ?? Number.NaN))
  const at = q * (sorted.length + zeros - 1)
  const low = valueAt(Math.floor(at))
  const high = valueAt(Math.ceil(at))
  return low + (high - low) * (at - Math.floor(at))
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)
