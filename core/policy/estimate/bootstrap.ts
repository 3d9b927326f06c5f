import { quantile } from './quantile.ts'

/** A mean and the ends of its 95 % interval. */
export interface BootstrapInterval {
  readonly mean: number
  readonly low: number
  readonly high: number
}

const bootstrapResamples = 1_000

/** @returns 0..1 */
interface Draws {
  next(): number
}

/** The middle 95 % of a statistic over resamples of the items, with replacement; null where most resamples have none. */
export function bootstrapInterval<Item>(
  items: readonly Item[],
  statistic: (items: readonly Item[]) => number | null,
  random: Draws,
): readonly [low: number, high: number] | null {
  const resampled = Array.from({ length: bootstrapResamples }, () =>
    statistic(items.map(() => items[Math.floor(random.next() * items.length)]!)),
  )
  const values = resampled.filter((value) => value !== null)
  if (values.length < bootstrapResamples / 2) return null
  return [quantile(values, 0.025), quantile(values, 0.975)]
}

/** Of a mean; undefined of nothing. */
export function bootstrapMean(values: readonly number[], random: Draws): BootstrapInterval | undefined {
  if (values.length === 0) return undefined
  const meanOf = (drawn: readonly number[]) => drawn.reduce((sum, value) => sum + value, 0) / drawn.length
  const [low, high] = bootstrapInterval(values, meanOf, random)!
  return { mean: meanOf(values), low, high }
}
