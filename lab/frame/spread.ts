import { median } from '../../core/policy/estimate/quantile.ts'
import type { Summary } from './bench.ts'

/** The least and the greatest value of a figure. */
export type Range = readonly [least: number, greatest: number]

/** A range wider than this share of the median tells no two commits apart. */
const wideShare = 0.25

/** Each figure's median over the repetitions; null where no repetition has it. */
export function medianOf(repetitions: readonly Summary[]): Summary {
  const names = new Set(repetitions.flatMap(Object.keys))
  return Object.fromEntries(
    [...names].map((name) => {
      const values = valuesOf(repetitions, name)
      return [name, values.length === 0 ? null : median(values)]
    }),
  )
}

/** Undefined with fewer than two values. */
export function rangeOf(repetitions: readonly Summary[], name: string): Range | undefined {
  const values = valuesOf(repetitions, name)
  return values.length < 2 ? undefined : [Math.min(...values), Math.max(...values)]
}

export const isWide = ([least, greatest]: Range, middle: number): boolean => greatest - least > wideShare * Math.abs(middle)

const valuesOf = (repetitions: readonly Summary[], name: string): number[] =>
  repetitions.flatMap((summary) => summary[name] ?? [])
