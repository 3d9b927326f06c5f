import type { BenchContext } from '../../../frame/bench.ts'
import type { ScenarioResult } from '../../run/result.ts'
import { runScenarios, withShareOfRequests } from '../run-scenarios.ts'
import { type Plan, type Setting, scenarioOf, settingsOf } from './settings.ts'

/** A setting's means over its seeds. */
export interface Run extends Setting {
  readonly answersPerMin: number
  readonly latencyS: number
  readonly ttftS: number
  /** Per answer: tokens of the LLM, and of small models. */
  readonly cloudTokens: number
  readonly edgeTokens: number
  /** Share of the time in which devices computed. */
  readonly deviceBusy: number
}

/** @param context its progress throws once the command was interrupted */
export async function runPlan(plan: Plan, context: Pick<BenchContext, 'io' | 'progress'>): Promise<Run[]> {
  const { seeds, share } = plan
  const settings = settingsOf(plan)
  const scenarios = settings.flatMap((setting) =>
    Array.from({ length: seeds }, (_, seed) => withShareOfRequests(scenarioOf(setting, seed + 1), share)),
  )
  const results = await runScenarios('', scenarios, context)
  return settings.map((setting, at) => runOf(setting, results.slice(at * seeds, (at + 1) * seeds)))
}

function runOf(setting: Setting, results: readonly ScenarioResult[]): Run {
  const mean = (value: (result: ScenarioResult) => number) =>
    Number((results.reduce((sum, result) => sum + value(result), 0) / results.length).toPrecision(4))
  return {
    ...setting,
    answersPerMin: mean(({ all }) => 60 * all.answersPerS),
    latencyS: mean(({ all }) => all.latencyMs.mean / 1_000),
    ttftS: mean(({ all }) => all.ttftMs.mean / 1_000),
    cloudTokens: mean(({ all }) => all.work.serverOutputTokens / all.answered),
    edgeTokens: mean(({ all }) => all.work.deviceOutputTokens / all.answered),
    deviceBusy: mean(({ devices }) => devices.jetsons!.busyShare),
  }
}
