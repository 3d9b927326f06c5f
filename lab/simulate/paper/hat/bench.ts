import type { Bench, BenchContext, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { measure, type Run } from './measure.ts'
import { plannedRuns } from './plan.ts'
import { hatPaperReport, summarise } from './report.ts'

/** Requests of a run. */
const requests = { quick: 200, full: 1_000 }

export const hatPaperBench: Bench = {
  name: 'paper-hat',
  commandLine: 'brim simulate paper hat',
  quickLimit: '2 minutes',
  isTimeless: true,
  options: {},
  examples: [],
  goals: {
    cellsUnexplained: { max: 0 },
    orderingsKept: { min: 0.9 },
    ttftReductionShortImproved: { min: 0.48 },
    ttftReductionLongImproved: { min: 0.48 },
    tbtReductionShortImproved: { min: 0.75 },
    tbtReductionLongImproved: { min: 0.75 },
  },
  run: (context) => measurePaper(context.quick ? requests.quick : requests.full, context),
  report: hatPaperReport,
}

/** @param count requests of a run */
export async function measurePaper(count: number, { io, progress }: BenchContext): Promise<BenchResult> {
  const plan = plannedRuns(count)
  const runs: Run[] = []
  for (const [at, planned] of plan.entries()) {
    const { setup, purpose, variation } = planned
    progress(`run ${at + 1} of ${plan.length}: ${setup.method}, ${setup.dataset} prompts, ${purpose}, ${variation}`)
    runs.push(await measure(planned, io.signal))
  }
  return { conditions: { requests: count }, summary: summarise(runs), runs }
}

/** `brim simulate paper hat` */
export const command = benchCommand(hatPaperBench)
