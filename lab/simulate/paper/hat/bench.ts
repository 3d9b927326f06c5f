import type { BenchContext, BenchDocument, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { paperSummary } from '../cells.ts'
import { paperBench } from '../paper-bench.ts'
import { comparedRuns, measure, type Run } from './measure.ts'
import { paper } from './published.ts'
import { plannedRuns } from './scenarios.ts'

/** Requests of a run. */
const requests = { quick: 200, full: 1_000 }

export const hatPaperBench = paperBench('hat', paper, {
  isTimeless: true,
  options: {},
  run: (context) => measurePaper(context.quick ? requests.quick : requests.full, context),
  runsOf: ({ runs }: BenchDocument) => comparedRuns(runs as readonly Run[]),
})

/** `brim simulate paper hat` */
export const command = benchCommand(hatPaperBench)

/** @param count requests of a run */
export async function measurePaper(count: number, { io, progress }: BenchContext): Promise<BenchResult> {
  const plan = plannedRuns(count)
  const runs: Run[] = []
  for (const [at, planned] of plan.entries()) {
    const { setup, purpose, variation } = planned
    progress(`run ${at + 1} of ${plan.length}: ${setup.method}, ${setup.dataset} prompts, ${purpose}, ${variation}`)
    runs.push(await measure(planned, io.signal))
  }
  return { conditions: { requests: count }, summary: paperSummary(paper, comparedRuns(runs)), runs }
}
