import { defaultTailShare } from '../../../../core/policy/disco/dispatch.ts'
import type { BenchContext, BenchDocument, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { loadText } from '../../../frame/page.ts'
import { paperSummary } from '../cells.ts'
import { paperBench } from '../paper-bench.ts'
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
  return { conditions: { plan: { ...plan, ttft, cost } }, summary: paperSummary(paper, comparedRuns(runs)), runs }
}
