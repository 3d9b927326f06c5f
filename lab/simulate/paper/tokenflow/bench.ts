import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { Bench, BenchContext, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { dataOption, defaultDataFolder } from '../../run/data-folder.ts'
import { type RunScenarioOptions, runScenario } from '../../run/run-scenario.ts'
import type { AnswerRecord } from '../../world/answer-record.ts'
import { countsOf } from '../comparison.ts'
import { runScenarios, withShareOfRequests } from '../run-scenarios.ts'
import { cases, long, recordedCases } from './cases.ts'
import { cellsOf } from './cells.ts'
import { tokenFlowPaperReport } from './report.ts'
import { type FlowRun, flowRun, timelineOf } from './runs.ts'
import { type Case, recordings, scenarioOf } from './setups.ts'

const options = {
  seeds: z.int().min(1).meta({ description: 'number of seeds', fallback: '3, with --quick 1' }).optional(),
  data: dataOption,
}

/** Seconds between the points of Figs. 14 and 15. */
const timelineS = 5

export const tokenFlowPaperBench: Bench<typeof options> = {
  name: 'paper-tokenflow',
  commandLine: 'brim simulate paper tokenflow',
  quickLimit: '2 minutes',
  isTimeless: true,
  options,
  examples: [],
  goals: { unexplainedCells: { max: 0 }, improvedP99TtftCut: { min: 0.802 }, improvedEffectiveGain: { min: 0.825 } },
  run: (context, { seeds = context.quick ? 1 : 3, data = defaultDataFolder() }) =>
    measurePaper({ seeds, share: 1 }, data, context),
  report: tokenFlowPaperReport,
}

interface Effort {
  readonly seeds: number
  /** Of the requests that are drawn. */
  readonly share: number
}

/** @param data folder of the recorded requests, which are left out where it lacks them */
export async function measurePaper({ seeds, share }: Effort, data: string, { io, progress }: BenchContext): Promise<BenchResult> {
  const missing = missingTraces(data)
  if (missing.length > 0) progress(`Figs. 12 to 15 are left out, because ${missing.join(' and ')} is not in ${data} (--data)`)
  const drawn = Array.from({ length: seeds }, (_, i) => cases.map((one): [Case, number] => [one, i + 1])).flat()
  const recorded = missing.length > 0 ? [] : recordedCases.map((one): [Case, number] => [one, 1])
  const isLong = ([{ setup }]: [Case, number]) => setup === long
  const wanted = [...drawn, ...recorded.filter((one) => !isLong(one))]
  const scenarios = wanted.map(([one, seed]) => withShareOfRequests(scenarioOf(one, seed), share))
  const results = await runScenarios('', scenarios, { io, progress }, [data])
  const runs = wanted.map(([one, seed], i) => flowRun(one, seed, results[i]!))
  for (const [one, seed] of recorded.filter(isLong)) {
    progress(`Figs. 14 and 15: ${one.server}`)
    runs.push(await longRun(one, seed, { folders: [data], signal: io.signal }))
    io.signal.throwIfAborted()
  }
  return { conditions: { seeds, recorded: missing.length === 0 }, summary: summarise(runs), runs }
}

/** Files that the folder of the traces lacks. */
function missingTraces(folder: string): string[] {
  const files = new Set(Object.values(recordings).map(({ file }) => file))
  return [...files].filter((file) => !existsSync(join(folder, file)))
}

async function longRun(one: Case, seed: number, options: RunScenarioOptions): Promise<FlowRun> {
  const records: AnswerRecord[] = []
  const result = await runScenario(scenarioOf(one, seed), { ...options, onRecord: (record) => records.push(record) })
  return { ...flowRun(one, seed, result), timeline: timelineOf(records, timelineS) }
}

/** `brim simulate paper tokenflow` */
export const command = benchCommand(tokenFlowPaperBench)

export function summarise(runs: readonly FlowRun[]) {
  const cells = cellsOf(runs)
  const { compared, within, unexplained } = countsOf(cells)
  const improved = (place: string, metric: RegExp) => {
    const found = cells.find((cell) => cell.place === place && metric.test(cell.metric))
    return (found?.improved ?? Number.NaN) / 100
  }
  return {
    comparedCells: compared,
    cellsWithin25Percent: within,
    unexplainedCells: unexplained,
    improvedP99TtftCut: -improved('Fig. 16', /^P99/),
    improvedMeanTtftCut: -improved('Fig. 16', /^mean/),
    improvedEffectiveGain: improved('Fig. 17', /^effective/),
  }
}
