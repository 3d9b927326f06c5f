import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { BenchContext, BenchDocument, BenchResult } from '../../../frame/bench.ts'
import { benchCommand } from '../../../frame/command.ts'
import { dataOption, defaultDataFolder } from '../../run/data-folder.ts'
import { type RunScenarioOptions, runScenario } from '../../run/run-scenario.ts'
import type { AnswerRecord } from '../../world/answer-record.ts'
import { paperSummary } from '../cells.ts'
import { type Effort, paperBench } from '../paper-bench.ts'
import { runScenarios, withShareOfRequests } from '../run-scenarios.ts'
import { conditionTables } from './conditions.ts'
import { comparedRuns, type FlowRun, flowRun, timelineOf } from './runs.ts'
import { type Case, cases, paper, scenarioOf, traceOf } from './settings.ts'

const options = {
  seeds: z.int().min(1).optional().meta({ description: 'number of seeds', fallback: '3, with --quick 1' }),
  data: dataOption,
}

/** Figs. 14 and 15: every request of it, and seconds between their points. */
const long = 'H200, Qwen2.5-32B, Azure'
const timelineS = 5

export const tokenFlowPaperBench = paperBench('tokenflow', paper, {
  isTimeless: true,
  options,
  run: (context, { seeds = context.quick ? 1 : 3, data = defaultDataFolder() }) =>
    measurePaper({ seeds, share: 1 }, data, context),
  runsOf: ({ runs }: BenchDocument) => comparedRuns(runs as readonly FlowRun[]),
  more: conditionTables,
})

/** `brim simulate paper tokenflow` */
export const command = benchCommand(tokenFlowPaperBench)

/** @param data folder of the recorded requests, which are left out where it lacks them */
export async function measurePaper(
  { seeds, share }: Omit<Effort, 'isQuick'>,
  data: string,
  { io, progress }: BenchContext,
): Promise<BenchResult> {
  const missing = missingTraces(data)
  if (missing.length > 0) progress(`Figs. 12 to 15 are left out, because ${missing.join(' and ')} is not in ${data} (--data)`)
  const [drawn, recorded] = [false, true].map((isRecorded) => cases.filter(({ setup }) => !!traceOf(setup) === isRecorded))
  const wanted = [
    ...Array.from({ length: seeds }, (_, i) => drawn!.map((one): [Case, number] => [one, i + 1])).flat(),
    ...(missing.length > 0 ? [] : recorded!.map((one): [Case, number] => [one, 1])),
  ]
  const atOnce = wanted.filter(([{ setup }]) => setup !== long)
  const scenarios = atOnce.map(([one, seed]) => withShareOfRequests(scenarioOf(one, seed), share))
  const results = await runScenarios('', scenarios, { io, progress }, [data])
  const runs = atOnce.map(([one, seed], i) => flowRun(one, seed, results[i]!))
  for (const [one, seed] of wanted.filter(([{ setup }]) => setup === long)) {
    progress(`Figs. 14 and 15: ${one.server}`)
    runs.push(await longRun(one, seed, { folders: [data], signal: io.signal }))
    io.signal.throwIfAborted()
  }
  return { conditions: { seeds, recorded: missing.length === 0 }, summary: paperSummary(paper, comparedRuns(runs)), runs }
}

/** Files that the folder of the traces lacks. */
function missingTraces(folder: string): string[] {
  const files = new Set(cases.flatMap(({ setup }) => traceOf(setup) ?? []))
  return [...files].filter((file) => !existsSync(join(folder, file)))
}

async function longRun(one: Case, seed: number, options: RunScenarioOptions): Promise<FlowRun> {
  const records: AnswerRecord[] = []
  const result = await runScenario(scenarioOf(one, seed), { ...options, onRecord: (record) => records.push(record) })
  return { ...flowRun(one, seed, result), timeline: timelineOf(records, timelineS) }
}
