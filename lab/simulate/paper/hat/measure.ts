import { quantile } from '../../../../core/policy/estimate/quantile.ts'
import { runScenario } from '../../run/run-scenario.ts'
import type { AnswerRecord } from '../../world/answer-record.ts'
import { paperDecodeSla, paperPrefillSla } from './published.ts'
import { type Setup, scenarioOf } from './scenarios.ts'

/** Points of the curves of Figs. 9 and 10. */
const curvePoints = 20

/** One simulated run. Times in ms, means over requests. */
export interface Run {
  /** What the run is for, and what differs in it. */
  readonly purpose: Purpose
  readonly variation: string
  readonly setup: Setup
  readonly requests: number
  readonly ttftMs: number
  readonly tbtMs: number
  readonly acceptLength: number
  /** Where the time of a round goes; its tokens are those of `acceptLength`. */
  readonly roundMs: RoundParts
  /** Tokens of a draft. */
  readonly draftLength: number
  /** P. */
  readonly stages: number
  /** Of a step on each GPU. */
  readonly stageMs: number
  readonly stageDeviationMs: number
  /** Percent of requests within the paper's limit per 128 tokens of the prompt. */
  readonly prefillSlaPercent: number
  /** The paper's quantile of ms per 10 tokens. */
  readonly decodeSlaMs: number
  /** Quantiles over requests, in equal steps from 0 to 1. */
  readonly prefillCurveMs: readonly number[]
  readonly decodeCurveMs: readonly number[]
}

export const roundParts = ['drafting', 'uplink', 'cloud', 'downlink', 'choosing'] as const
/** ms of a round: until the rows are sent, up, at the cloud, down, and until the device has chosen. */
export type RoundParts = Readonly<Record<(typeof roundParts)[number], number>>

export type Purpose = 'rates' | 'pipeline' | 'ablation' | 'alone' | 'longest' | 'improved' | 'limits' | 'open'

export interface Planned {
  readonly purpose: Purpose
  readonly variation: string
  readonly setup: Setup
  readonly requests: number
}

export async function measure({ purpose, variation, setup, requests }: Planned, signal?: AbortSignal): Promise<Run> {
  const records: AnswerRecord[] = []
  const result = await runScenario(scenarioOf(setup, requests, 1), {
    ...(signal && { signal }),
    onRecord: (record) => records.push(record),
  })
  signal?.throwIfAborted()
  const mean = (of: (record: AnswerRecord) => number) => records.reduce((sum, record) => sum + of(record), 0) / records.length
  const perRound = (of: (record: AnswerRecord) => number) => mean(of) / mean(({ rounds }) => rounds)
  const prefill = records.map(({ ttftMs, promptTokens }) => (128 * ttftMs) / promptTokens)
  const decode = records.map(({ tbtMs }) => 10 * tbtMs)
  const { limitMs } = paperPrefillSla[setup.dataset]
  const curve = (values: readonly number[]) =>
    Array.from({ length: curvePoints + 1 }, (_, at) => Math.round(quantile(values, at / curvePoints)))
  const [engine] = result.engines
  return {
    purpose,
    variation,
    setup,
    requests,
    ttftMs: mean(({ ttftMs }) => ttftMs),
    tbtMs: mean(({ tbtMs }) => tbtMs),
    acceptLength: perRound(({ gainedTokens }) => gainedTokens),
    draftLength: perRound(({ draftedTokens }) => draftedTokens),
    roundMs: {
      drafting: 1_000 * perRound(({ draftingS }) => draftingS),
      uplink: 1_000 * perRound(({ uplinkS }) => uplinkS),
      cloud: 1_000 * perRound(({ cloudS }) => cloudS),
      downlink: 1_000 * perRound(({ downlinkS }) => downlinkS),
      choosing: 1_000 * perRound(({ choosingS }) => choosingS),
    },
    stages: setup.pipeline ?? 4,
    stageMs: engine!.stageMs,
    stageDeviationMs: engine!.stageDeviationMs,
    prefillSlaPercent: (100 * prefill.filter((ms) => ms <= limitMs).length) / prefill.length,
    decodeSlaMs: quantile(decode, paperDecodeSla[setup.dataset].quantile),
    prefillCurveMs: curve(prefill),
    decodeCurveMs: curve(decode),
  }
}
