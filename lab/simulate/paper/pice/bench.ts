import type { Bench, BenchContext, BenchDocument, BenchResult, Summary } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { comparisonTables, countsOf } from '../comparison.ts'
import { cellsOf, gainOf, runsOf } from './cells.ts'
import { paperFigure } from './figure.ts'
import { conditionsText, findingsText } from './report.ts'
import { runPlan } from './runs.ts'
import { fullPlan, type Plan, quickPlan, studied } from './settings.ts'

export const picePaperBench: Bench = {
  name: 'paper-pice',
  commandLine: 'brim simulate paper pice',
  quickLimit: '2 minutes',
  isTimeless: true,
  options: {},
  examples: [],
  goals: {
    cellsUnexplained: { max: 0 },
    // The paper's headlines: 1.5 to 2 times the throughput, up to 43 % less latency.
    brimThroughputGain: { min: 1.5 },
    brimLatencyCut: { min: 0.43 },
  },
  run: (context) => measurePaper(context.quick ? quickPlan : fullPlan, context),
  report: {
    title: 'PICE’s tables and figures, simulated',
    contents: 'every setting with the means over its seeds',
    figure: paperFigure,
    figureText:
      'Table III over cloud-only, static and dynamic scheduling, and throughput and latency by load, queue length and bandwidth',
    tables: (document) => comparisonTables(cellsOf(document)),
    findings: findingsText,
    conditions: conditionsText,
  },
}

/** `brim simulate paper pice` */
export const command = benchCommand(picePaperBench)

export async function measurePaper(plan: Plan, context: Pick<BenchContext, 'io' | 'progress'>): Promise<BenchResult> {
  const runs = await runPlan(plan, context)
  return { conditions: { plan }, summary: summarise({ runs }), runs }
}

export function summarise(document: Pick<BenchDocument, 'runs'>): Summary {
  const { compared, within, explained, unexplained } = countsOf(cellsOf(document))
  const runs = runsOf(document)
  const [pice, brim] = [gainOf(runs, 'PICE', studied), gainOf(runs, 'Brim', studied)]
  return {
    cells: compared,
    cellsWithin25: within,
    cellsExplained: explained,
    cellsUnexplained: unexplained,
    throughputGain: pice.throughput,
    latencyCut: pice.latencyCut,
    brimThroughputGain: brim.throughput,
    brimLatencyCut: brim.latencyCut,
  }
}
