import type { BenchContext, BenchDocument, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { paperSummary } from '../cells.ts'
import { type Effort, paperBench } from '../paper-bench.ts'
import { runSettings, withShareOfRequests } from '../run-scenarios.ts'
import { comparedRuns, type Run, runOf } from './runs.ts'
import { paper, type Setting, scenarioOf, settingsOf } from './settings.ts'

export const picePaperBench = paperBench('pice', paper, {
  isTimeless: true,
  options: {},
  run: (context) => measurePaper({ isQuick: context.quick, seeds: context.quick ? 2 : 5, share: 1 }, context),
  runsOf: ({ runs }: BenchDocument) => comparedRuns(runs as readonly Run[]),
})

/** `brim simulate paper pice` */
export const command = benchCommand(picePaperBench)

/** @param context its progress throws once the command was interrupted */
export async function measurePaper(plan: Effort, context: Pick<BenchContext, 'io' | 'progress'>): Promise<BenchResult> {
  const { seeds, share } = plan
  const each = (setting: Setting) => ({
    seeds,
    withSeed: (seed: number) => withShareOfRequests(scenarioOf(setting, seed), share),
  })
  const measured = await runSettings(settingsOf(plan.isQuick), each, context)
  const runs = measured.map(({ setting, results }) => runOf(setting, results))
  return { conditions: { plan }, summary: paperSummary(paper, comparedRuns(runs)), runs }
}
