import { z } from 'zod'
import type { Bench } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { runAll } from '../../run/run-all.ts'
import { isWithin, unexplained } from '../comparison.ts'
import { cases } from './cases.ts'
import { cellsOf } from './cells.ts'
import { tokenFlowPaperReport } from './report.ts'
import { type FlowRun, flowRun } from './runs.ts'
import { type Case, scenarioOf } from './setups.ts'

const options = {
  seeds: z.int().min(1).meta({ description: 'number of seeds', fallback: '3, with --quick 1' }).optional(),
}

export const tokenFlowPaperBench: Bench<typeof options> = {
  name: 'paper-tokenflow',
  commandLine: 'brim simulate paper tokenflow',
  quickLimit: '2 minutes',
  options,
  examples: [],
  goals: { unexplainedCells: { max: 0 }, improvedP99TtftCut: { min: 0.802 }, improvedEffectiveGain: { min: 0.825 } },
  async run({ quick, io, progress }, { seeds = quick ? 1 : 3 }) {
    const wanted = Array.from({ length: seeds }, (_, i) => cases.map((one): [Case, number] => [one, i + 1])).flat()
    let shown = 0
    const results = await runAll(
      wanted.map(([one, seed]) => scenarioOf(one, seed)),
      {
        signal: io.signal,
        onProgress(share) {
          if (share < shown) return
          shown += 0.1
          progress(`${Math.round(100 * share)} % of ${wanted.length} runs`)
        },
      },
    )
    io.signal.throwIfAborted()
    const runs = wanted.map(([one, seed], i) => flowRun(one, seed, results[i]!))
    return { conditions: { seeds }, summary: summarise(runs), runs }
  },
  report: tokenFlowPaperReport,
}

/** `brim simulate paper tokenflow` */
export const command = benchCommand(tokenFlowPaperBench)

export function summarise(runs: readonly FlowRun[]) {
  const cells = cellsOf(runs)
  const compared = cells.filter(({ paper }) => paper !== null)
  const improved = (place: string, metric: RegExp) => {
    const found = cells.find((cell) => cell.place === place && metric.test(cell.metric))
    return (found?.improved ?? Number.NaN) / 100
  }
  return {
    comparedCells: compared.length,
    cellsWithin25Percent: compared.filter(isWithin).length,
    unexplainedCells: unexplained(cells).length,
    improvedP99TtftCut: -improved('Fig. 16', /^P99/),
    improvedMeanTtftCut: -improved('Fig. 16', /^mean/),
    improvedEffectiveGain: improved('Fig. 17', /^effective/),
  }
}
