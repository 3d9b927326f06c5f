import type { FleetRun } from './fleet-run.ts'

/** The run of the median seed and those around it, as to one figure. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

export const runsOf = (runs: readonly FleetRun[], method: string, gpus: number): readonly FleetRun[] => {
  const own = runs.filter((run) => run.method === method)
  return own.filter((run) => run.gpus === gpus || run.gpus === 0)
}

/** Over the seeds of one method. @param runs at least one */
export function spreadOf(runs: readonly FleetRun[], value: (run: FleetRun) => number): Spread {
  const values = runs.map(value).sort((a, b) => a - b)
  const middle = values.length >> 1
  const median = values.length % 2 === 1 ? values[middle]! : (values[middle - 1]! + values[middle]!) / 2
  return { median, least: values[0]!, most: values.at(-1)! }
}

export const medianOf = (runs: readonly FleetRun[], value: (run: FleetRun) => number): number => spreadOf(runs, value).median
