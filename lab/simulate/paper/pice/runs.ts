import type { BenchContext } from '../../../frame/bench.ts'
import type { ScenarioResult } from '../../run/result.ts'
import { meanOver, runSettings, withShareOfRequests } from '../run-scenarios.ts'
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
  const each = (setting: Setting, seed: number) => withShareOfRequests(scenarioOf(setting, seed), share)
  const runs = await runSettings('', settingsOf(plan), seeds, each, context)
  return runs.map(({ setting, results }) => runOf(setting, results))
}

function runOf(setting: Setting, results: readonly ScenarioResult[]): Run {
  const mean = meanOver(results)
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
