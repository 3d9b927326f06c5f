import type { Summary } from './bench.ts'
import { medianOrNull } from './statistics.ts'

/** The least and the greatest value of a figure. */
export type Range = readonly [least: number, greatest: number]

/** A range wider than this share of the median tells no two commits apart. */
const wideShare = 0.25

/** Each figure's median over the repetitions; null where no repetition has it. */
export function medianSummary(repetitions: readonly Summary[]): Summary {
  const names = new Set(repetitions.flatMap(Object.keys))
  return Object.fromEntries([...names].map((name) => [name, medianOrNull(measuredOf(repetitions, name))]))
}

/** Undefined with fewer than two values. */
export function rangeOf(repetitions: readonly Summary[], name: string): Range | undefined {
  const values = measuredOf(repetitions, name)
  return values.length < 2 ? undefined : [Math.min(...values), Math.max(...values)]
}

export const isWide = ([least, greatest]: Range, middle: number): boolean => greatest - least > wideShare * Math.abs(middle)

const measuredOf = (repetitions: readonly Summary[], name: string): number[] =>
  repetitions.flatMap((summary) => summary[name] ?? [])
