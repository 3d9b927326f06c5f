import { costOf } from '../../../../core/policy/disco/costs.ts'
import type { BenchContext } from '../../../frame/bench.ts'
import type { ScenarioResult } from '../../run/result.ts'
import { meanOver, runSettings } from '../run-scenarios.ts'
import { measurePlans, type PlanTimes, sampleCounts } from './plan-times.ts'
import {
  constrainedSides,
  costSettings,
  outputTokens,
  overheadSettings,
  type Plan,
  type Setting,
  scenarioOf,
  tailSettings,
  ttftSettings,
} from './settings.ts'

/** Of races for the first token: means over the seeds. 'tail': with another α. */
export interface TtftRun extends Setting {
  readonly measured: 'ttft' | 'tail'
  readonly meanMs: number
  readonly p99Ms: number
}

/** Of whole answers: means over the seeds. 'overhead': with another t_m. */
export interface CostRun extends Setting {
  readonly measured: 'cost' | 'overhead'
  /** Per 10⁶ answers, of both sides. */
  readonly dollars: number
  /** Per answer. */
  readonly migrations: number
  /** Tokens that the reader had in hand at a migration; null: there was none. */
  readonly bufferedMean: number | null
  readonly bufferedP99: number | null
  /** Of all gaps between delivered tokens. */
  readonly tbtP99Ms: number
  /** Late because of migrations, per answer. */
  readonly delayedTokens: number
}

/** Measured on this machine, not simulated. */
export interface PlanRun {
  readonly measured: 'plan'
  readonly times: PlanTimes
}

export type Run = TtftRun | CostRun | PlanRun

/** @param context its progress throws once the command was interrupted */
export async function runPlan(plan: Plan, context: Pick<BenchContext, 'io' | 'progress'>): Promise<Run[]> {
  const each = async <R extends Run>(
    what: string,
    settings: readonly Setting[],
    { seeds, requests, answers }: { readonly seeds: number; readonly requests: number; readonly answers: number },
    runOf: (setting: Setting, results: readonly ScenarioResult[]) => R,
  ): Promise<R[]> => {
    const scenario = (setting: Setting, seed: number) => scenarioOf(setting, seed, requests, answers)
    const runs = await runSettings(`${what}: `, settings, seeds, scenario, context)
    return runs.map(({ setting, results }) => runOf(setting, results))
  }
  const { seeds, ttft, cost, batches } = plan
  const firstTokens = { seeds, requests: ttft.requests, answers: 1 }
  const whole = { ...cost, answers: outputTokens }
  return [
    ...(await each('first tokens', ttftSettings(plan), firstTokens, ttftRun('ttft'))),
    ...(await each('another α', tailSettings(plan), firstTokens, ttftRun('tail'))),
    ...(await each('whole answers', costSettings(plan), whole, costRun('cost'))),
    ...(await each('another t_m', overheadSettings(plan), whole, costRun('overhead'))),
    ...sampleCounts.flatMap((samples) =>
      constrainedSides.map((side): PlanRun => ({ measured: 'plan', times: measurePlans(side, samples, batches) })),
    ),
  ]
}

function ttftRun(measured: TtftRun['measured']) {
  return (setting: Setting, results: readonly ScenarioResult[]): TtftRun => {
    const mean = meanOver(results)
    return { measured, ...setting, meanMs: mean(({ all }) => all.ttftMs.mean), p99Ms: mean(({ all }) => all.ttftMs.p99) }
  }
}

function costRun(measured: CostRun['measured']) {
  return (setting: Setting, results: readonly ScenarioResult[]): CostRun => ({
    measured,
    ...setting,
    ...costsOf(setting, results),
  })
}

function costsOf(setting: Setting, results: readonly ScenarioResult[]) {
  const device = scenarioOf(setting, 1, 1, 1).policies.disco.deviceDollarsPerToken!
  const mean = meanOver(results)
  const orNull = (value: number) => (Number.isNaN(value) ? null : value)
  return {
    dollars: mean(({ all }) => {
      const { dollars, devicePromptTokens: promptTokens, deviceOutputTokens: tokens } = all.work
      return (1e6 * (dollars + costOf(device, { promptTokens, tokens }))) / all.answered
    }),
    migrations: mean(({ all }) => all.work.migrations / all.answered),
    bufferedMean: orNull(mean(({ all }) => all.bufferedTokens.mean)),
    bufferedP99: orNull(mean(({ all }) => all.bufferedTokens.p99)),
    tbtP99Ms: mean(({ all }) => all.tbtMs.p99),
    delayedTokens: mean(({ all }) => all.work.delayedTokens / all.answered),
  }
}
