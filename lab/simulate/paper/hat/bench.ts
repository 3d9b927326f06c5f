import type { BenchContext, BenchDocument, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { cellsOf } from '../cells.ts'
import { countsOf, type PaperCell } from '../comparison.ts'
import { paperBench } from '../paper-bench.ts'
import { summaryOf } from '../quantity.ts'
import { comparedRuns, measure, type Run } from './measure.ts'
import { paper } from './published.ts'
import { plannedRuns } from './scenarios.ts'

/** Requests of a run. */
const requests = { quick: 200, full: 1_000 }
/** Figures that differ by less are no rank. */
const tie = 0.05

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
  return { conditions: { requests: count }, summary: summarise(runs), runs }
}

export function summarise(runs: readonly Run[]) {
  const all = comparedRuns(runs)
  const cells = cellsOf(paper, all)
  const { compared, within, unexplained } = countsOf(cells)
  const { kept, pairs } = orderingsKept(cells)
  return {
    cells: compared,
    cellsWithin25Percent: within / compared,
    cellsUnexplained: unexplained,
    orderingsKept: kept / pairs,
    ...summaryOf(paper, all),
  }
}

/** Pairs of methods in one figure of the paper, of which the same one is ahead here. */
export function orderingsKept(cells: readonly PaperCell[]): { readonly kept: number; readonly pairs: number } {
  let [kept, pairs] = [0, 0]
  for (const [at, one] of cells.entries())
    for (const other of cells.slice(at + 1)) {
      if (!areComparable(one, other) || Math.abs(one.paper! / other.paper! - 1) < tie) continue
      pairs += 1
      if (Math.sign(one.paper! - other.paper!) === Math.sign(one.ours - other.ours)) kept += 1
    }
  return { kept, pairs }
}

const areComparable = (one: PaperCell, other: PaperCell): boolean =>
  one.place === other.place &&
  one.metric === other.metric &&
  one.paper !== null &&
  other.paper !== null &&
  one.row.split(',')[0] === other.row.split(',')[0]
