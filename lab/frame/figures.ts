import type { Goals, Summary } from './bench.ts'

/** The figures of a summary by name: how each follows from what was measured, and its goal. */
export type SummaryFigures<Measured> = Readonly<
  Record<string, readonly [of: (measured: Measured) => number | null, goal?: Goals[string]]>
>

export const summaryOf = <Measured>(figures: SummaryFigures<Measured>, measured: Measured): Summary =>
  Object.fromEntries(Object.entries(figures).map(([name, [of]]) => [name, of(measured)]))

export const goalsOf = <Measured>(figures: SummaryFigures<Measured>): Goals =>
  Object.fromEntries(Object.entries(figures).flatMap(([name, [, goal]]) => (goal ? [[name, goal]] : [])))
