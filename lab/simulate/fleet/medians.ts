import { median } from '../../../core/policy/estimate/quantile.ts'
import type { FleetRun } from './fleet-run.ts'

export const runsOf = (runs: readonly FleetRun[], method: string, gpus: number): readonly FleetRun[] => {
  const own = runs.filter((run) => run.method === method)
  return own.filter((run) => run.gpus === gpus || run.gpus === 0)
}

/** Of one figure, over the seeds of one method. @param runs at least one */
export function spreadOf(runs: readonly FleetRun[], value: (run: FleetRun) => number) {
  const values = runs.map(value)
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) }
}

export const medianOf = (runs: readonly FleetRun[], value: (run: FleetRun) => number): number => median(runs.map(value))
