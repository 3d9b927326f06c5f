import type { BenchContext } from '../../frame/bench.ts'
import type { ScenarioResult } from '../run/result.ts'
import { runAll } from '../run/run-all.ts'
import type { Scenario } from '../scenario/scenario.ts'

/**
 * Runs scenarios on all cores, and shows every tenth of the way.
 * @param label of the lines of progress
 * @param context its progress throws once the command was interrupted
 * @param folders of the files that the scenarios name
 * @returns a complete result for each scenario, in their order; rejects where the command was interrupted
 */
export async function runScenarios(
  label: string,
  scenarios: readonly Scenario[],
  { io, progress }: Pick<BenchContext, 'io' | 'progress'>,
  folders: readonly string[] = [],
): Promise<ScenarioResult[]> {
  let shown = 0
  const results = await runAll(scenarios, {
    folders,
    signal: io.signal,
    onProgress(share) {
      if (share < shown + 0.1 && share < 1) return
      shown = share
      progress(`${label}${Math.round(100 * share)} % of ${scenarios.length} runs`)
    },
  })
  io.signal.throwIfAborted()
  return results.map((result) => result!)
}

/** Of each setting, the scenarios with the seeds 1, 2, … @returns the results of each setting, in their order */
export async function runSettings<Setting>(
  settings: readonly Setting[],
  scenariosOf: (setting: Setting) => { readonly seeds: number; readonly withSeed: (seed: number) => Scenario },
  context: Pick<BenchContext, 'io' | 'progress'>,
): Promise<readonly { readonly setting: Setting; readonly results: readonly ScenarioResult[] }[]> {
  const seeded = settings.flatMap((setting) => {
    const { seeds, withSeed } = scenariosOf(setting)
    return Array.from({ length: seeds }, (_, at) => ({ setting, scenario: withSeed(at + 1) }))
  })
  const results = await runScenarios(
    '',
    seeded.map(({ scenario }) => scenario),
    context,
  )
  return settings.map((setting) => ({ setting, results: results.filter((_, at) => seeded[at]!.setting === setting) }))
}

/** Means to four digits, of the results that have a value; NaN where none has. */
export const meanOver =
  (results: readonly ScenarioResult[]) =>
  (value: (result: ScenarioResult) => number): number => {
    const values = results.map(value).filter((each) => !Number.isNaN(each))
    return Number((values.reduce((sum, each) => sum + each, 0) / values.length).toPrecision(4))
  }

export function withShareOfRequests({ workload, ...rest }: Scenario, share: number): Scenario {
  return { ...rest, workload: { ...workload, requests: Math.ceil(share * workload.requests) } }
}
