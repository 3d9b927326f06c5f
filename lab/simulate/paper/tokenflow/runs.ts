import type { ScenarioResult } from '../../run/result.ts'
import type { Case } from './setups.ts'

/** What one server made of one set-up, with one seed. */
export interface FlowRun extends Case {
  readonly seed: number
  /** From the first request to the last token. */
  readonly totalS: number
  /** Tokens per second; effective: weighted by what their readers have not read yet (Eq. 1). */
  readonly effectivePerS: number
  readonly rawPerS: number
  readonly meanTtftS: number
  readonly p99TtftS: number
  /** Mean over answers. */
  readonly stalledS: number
  readonly qos: number
  readonly preemptions: number
  readonly movedGb: number
}

export function flowRun(one: Case, seed: number, { durationS, all, engines }: ScenarioResult): FlowRun {
  const sumOf = (value: (engine: ScenarioResult['engines'][number]) => number) =>
    engines.reduce((sum, engine) => sum + value(engine), 0)
  return {
    ...one,
    seed,
    totalS: durationS,
    effectivePerS: all.effectiveTokensPerS,
    rawPerS: all.tokensPerS,
    meanTtftS: all.ttftMs.mean / 1_000,
    p99TtftS: all.ttftMs.p99 / 1_000,
    stalledS: all.stalledMs.mean / 1_000,
    qos: all.qos,
    preemptions: sumOf(({ preemptions }) => preemptions),
    movedGb: sumOf(({ savedBytes, loadedBytes }) => savedBytes + loadedBytes) / 1e9,
  }
}
