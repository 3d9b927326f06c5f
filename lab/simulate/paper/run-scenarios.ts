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

/** A scenario with a share of its requests. */
export function withShareOfRequests({ workload, ...rest }: Scenario, share: number): Scenario {
  return { ...rest, workload: { ...workload, requests: Math.ceil(share * workload.requests) } }
}
