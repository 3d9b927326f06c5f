import type { ReportedSide } from '../../../core/policy/disco/state.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { measurePlans, type PlanTimes, perBatch, sampleCounts } from '../../simulate/paper/disco/plan-times.ts'
import { planReport } from './report.ts'

const constrainedSides: readonly ReportedSide[] = ['server', 'device']

export const planBench: Bench = {
  name: 'disco-plan',
  options: {},
  examples: [],
  goals: { planMs100k: { max: 1 }, updateUs: { max: 5 } },
  async run({ quick, progress }) {
    const batches = quick ? 20 : 200
    const runs = sampleCounts.flatMap((samples) => {
      progress(`${samples} samples`)
      return constrainedSides.map((constrained) => measurePlans(constrained, samples, batches))
    })
    return { conditions: { batches, perBatch }, summary: summarise(runs), runs }
  },
  report: planReport,
}

/** `brim bench disco-plan` */
export const command = benchCommand(planBench)

/** The slower of the two policies. */
export function summarise(runs: readonly PlanTimes[]) {
  const slowest = (samples: number, of: (run: PlanTimes) => readonly number[]) =>
    Math.max(...runs.filter((run) => run.samples === samples).map((run) => median(of(run))))
  const planMs = (samples: number) => slowest(samples, ({ planUs }) => planUs) / 1_000
  return {
    planMs1k: planMs(1_000),
    planMs10k: planMs(10_000),
    planMs100k: planMs(100_000),
    updateUs: slowest(100_000, ({ updateUs }) => updateUs),
    allLengthsMs100k: slowest(100_000, ({ allLengthsMs }) => allLengthsMs),
    sortedMs100k: slowest(100_000, ({ sortedMs }) => sortedMs),
  }
}
