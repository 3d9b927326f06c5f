import type { ReportedSide } from '../../core/policy/disco/state.ts'
import { median } from '../../core/policy/estimate/quantile.ts'
import { benchCommand } from '../frame/command.ts'
import { loadText } from '../frame/page.ts'
import { type Bar, barPanel } from '../frame/panels.ts'
import { tabledBench } from '../frame/tabled-bench.ts'
import { tableOf } from '../frame/tables.ts'
import { measurePlans, type PlanTimes, paperPlanMs, perBatch, sampleCounts } from '../simulate/paper/disco/plan-times.ts'

const constrainedSides: readonly ReportedSide[] = ['server', 'device']

type Times = 'updateUs' | 'planUs' | 'allLengthsMs' | 'sortedMs'

/** The median of the slower of the two policies. */
const slowest = (samples: number, times: Times) => (runs: readonly PlanTimes[]) =>
  Math.max(...runs.filter((run) => run.samples === samples).map((run) => median(run[times])))

const planMs = (samples: number) => (runs: readonly PlanTimes[]) => slowest(samples, 'planUs')(runs) / 1_000

export const discoPlanBench = tabledBench<PlanTimes>({
  name: 'disco-plan',
  title: 'Planning of DiSCo',
  contents: 'the time of every batch of plans',
  figureText: 'Time of a plan against the number of samples',
  figures: {
    planMs1k: [planMs(1_000)],
    planMs10k: [planMs(10_000)],
    planMs100k: [planMs(100_000), { max: 1 }],
    updateUs: [slowest(100_000, 'updateUs'), { max: 5 }],
    allLengthsMs100k: [slowest(100_000, 'allLengthsMs')],
    sortedMs100k: [slowest(100_000, 'sortedMs')],
  },
  async measure({ quick, progress }) {
    const batches = quick ? 20 : 200
    const runs = sampleCounts.flatMap((samples) => {
      progress(`${samples} samples`)
      return constrainedSides.map((constrained) => measurePlans(constrained, samples, batches))
    })
    return { conditions: { batches, perBatch }, runs }
  },
  show(document) {
    const { runs, conditions } = document
    const bars = (times: Times) =>
      runs.map((run): Bar => [`${run.samples} samples`, `limited ${run.constrained}`, median(run[times])])
    return {
      figure: {
        title: 'Time of a plan against the number of samples',
        subtitle: String(conditions.cpu),
        columns: 2,
        panels: [
          barPanel('Plan of a request, from histograms', 'µs', bars('planUs')),
          barPanel('Plan of all prompt lengths, from sorted samples', 'ms', bars('sortedMs')),
        ],
      },
      tables: [
        tableOf('Median times', runs, [
          ['limited side', (run) => run.constrained],
          ['samples', (run) => String(run.samples)],
          ['update, µs', (run) => median(run.updateUs).toFixed(2)],
          ['plan of a request, µs', (run) => median(run.planUs).toFixed(2)],
          ['of all lengths, ms', (run) => median(run.allLengthsMs).toFixed(3)],
          ['of all lengths from sorted samples, ms', (run) => median(run.sortedMs).toFixed(3)],
          ['paper (M1), ms', (run) => String(paperPlanMs[run.constrained][run.samples] ?? '')],
        ]),
      ],
      conditions: `${conditions.cpu}, ${conditions.cores} cores; ${loadText(document)}; ${conditions.batches} batches of ${conditions.perBatch}.

- Times to the first token and prompt lengths are log-normal, as the paper's synthetic ones.
- *update*: an answer's prompt length and time to the first token are learned. *plan of a request*: when device and server start on it.
  Both happen once for each request, and their time does not depend on the number of samples: histograms have a fixed size.
- *of all lengths* plans every prompt length at once, as the paper does. *From sorted samples* is the same policy on the samples
  themselves, which are sorted for each plan: what histograms save.
- Budgets of 0.1 to 0.9 take turns; α is 0.05.`,
    }
  },
})

export const command = benchCommand(discoPlanBench)
