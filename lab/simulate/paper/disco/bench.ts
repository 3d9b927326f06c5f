import type { Bench, BenchContext, BenchDocument, BenchResult, Summary } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { comparisonTables, countsOf } from '../comparison.ts'
import { cellsOf, comparisonsOf, costCutsOf, costRuns, ttftRuns } from './cells.ts'
import { paperFigure } from './figure.ts'
import { tailCuts } from './paper-figures.ts'
import { paperReport } from './report.ts'
import { type Run, runPlan } from './runs.ts'
import { fullPlan, type Plan, quickPlan } from './settings.ts'

export const discoPaperBench: Bench = {
  name: 'paper-disco',
  commandLine: 'brim simulate paper disco',
  quickLimit: '2 minutes',
  // Fig. 9 has the time of plans.
  quickRepetitions: 1,
  options: {},
  examples: [],
  goals: {
    cellsUnexplained: { max: 0 },
    largestTailCut: { min: 0.52 },
    tableErrorTurned: { max: 6 },
  },
  run: (context) => measurePaper(context.quick ? quickPlan : fullPlan, context),
  report: { ...paperReport, figure: paperFigure, tables: (document) => comparisonTables(cellsOf(document)) },
}

/** `brim simulate paper disco` */
export const command = benchCommand(discoPaperBench)

export async function measurePaper(plan: Plan, context: Pick<BenchContext, 'io' | 'progress'>): Promise<BenchResult> {
  const runs = await runPlan(plan, context)
  return { conditions: { plan }, summary: summarise(runs), runs }
}

export function summarise(runs: readonly Run[]): Summary {
  const document: BenchDocument = { bench: '', conditions: {}, summary: {}, runs }
  const cells = cellsOf(document)
  const { compared, within, explained, unexplained } = countsOf(cells)
  const table2 = cells.filter(({ place }) => place === 'Table 2')
  const ttft = ttftRuns(document)
  const alone = comparisonsOf(ttft, 'alone')
  const costs = costRuns(document)
  return {
    cells: compared,
    cellsWithin25: within,
    cellsExplained: explained,
    cellsUnexplained: unexplained,
    // Points of per cent, root mean square.
    tableErrorTurned: rms(table2.map(({ ours, paper }) => ours - paper!)),
    tableErrorAsPrinted: rms(table2.map(({ ours }, i) => ours - asPrinted[i]!)),
    largestTailCut: Math.max(...comparisonsOf(ttft, 'beside').map(({ p99Cut }) => p99Cut)),
    largestTailCutOverChance: Math.max(...alone.map(({ p99Cut }) => p99Cut)),
    meanTailCutOverChance: alone.reduce((sum, { p99Cut }) => sum + p99Cut, 0) / alone.length,
    largestMeanCutOverChance: Math.max(...alone.map(({ meanCut }) => meanCut)),
    largestCostCutServer: Math.max(...costCutsOf(costs, 'brim', 'server')),
    largestCostCutDevice: Math.max(...costCutsOf(costs, 'brim', 'device')),
  }
}

/** Table 2 with the columns as they are in the paper. */
const asPrinted = Object.values(tailCuts)
  .flatMap(({ server, device }) => [server.toReversed(), device.toReversed()])
  .flat()

const rms = (errors: readonly number[]): number => Math.sqrt(errors.reduce((sum, error) => sum + error ** 2, 0) / errors.length)
