import { z } from 'zod'
import { defaultTailShare } from '../../../../core/policy/disco/dispatch.ts'
import type { BenchContext, BenchDocument, BenchResult, Summary } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { loadText } from '../../../frame/page.ts'
import { cellsOf } from '../cells.ts'
import { countsOf } from '../comparison.ts'
import { paperBench } from '../paper-bench.ts'
import { publishedAs } from '../paper-file.ts'
import { mean, summaryOf } from '../quantity.ts'
import { paper } from './profiles.ts'
import { comparedRuns, fullPlan, type Plan, quickPlan, type Run, runPlan } from './runs.ts'

export const discoPaperBench = paperBench('disco', paper, {
  // Fig. 9 has the time of plans.
  quickRepetitions: 1,
  options: {},
  run: (context) => measurePaper(context.quick ? quickPlan : fullPlan, context),
  runsOf: ({ runs }: BenchDocument) => comparedRuns(runs as readonly Run[]),
  more: (document) => ({ defaultTailShare, load: loadText(document) }),
})

/** `brim simulate paper disco` */
export const command = benchCommand(discoPaperBench)

export async function measurePaper(plan: Plan, context: Pick<BenchContext, 'io' | 'progress'>): Promise<BenchResult> {
  const runs = await runPlan(plan, context)
  const budgetsOf = (measured: Run['measured']) => [
    ...new Set(
      runs.flatMap((run) => (run.measured === measured && 'budget' in run && run.method === 'plan' ? [run.budget] : [])),
    ),
  ]
  const [ttft, cost] = [
    { ...plan.ttft, budgets: budgetsOf('ttft') },
    { ...plan.cost, budgets: budgetsOf('cost') },
  ]
  return { conditions: { plan: { ...plan, ttft, cost } }, summary: summarise(runs), runs }
}

export function summarise(runs: readonly Run[]): Summary {
  const all = comparedRuns(runs)
  const cells = cellsOf(paper, all)
  const { compared, within, explained, unexplained } = countsOf(cells)
  const table2 = cells.filter(({ place }) => place === 'Table 2')
  return {
    cells: compared,
    cellsWithin25: within,
    cellsExplained: explained,
    cellsUnexplained: unexplained,
    // Points of per cent, root mean square.
    tableErrorTurned: rms(table2.map(({ ours, paper }) => ours - paper!)),
    tableErrorAsPrinted: rms(table2.map(({ ours }, i) => ours - asPrinted[i]!)),
    ...summaryOf(paper, all),
  }
}

/** Table 2 with the columns as they are in the paper. */
const asPrinted = Object.values(
  publishedAs(paper, 'tailCuts', z.record(z.string(), z.object({ server: z.array(z.number()), device: z.array(z.number()) }))),
)
  .flatMap(({ server, device }) => [server.toReversed(), device.toReversed()])
  .flat()

const rms = (errors: readonly number[]): number => Math.sqrt(mean(errors.map((error) => error ** 2)))
