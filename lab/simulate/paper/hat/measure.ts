import { quantile } from '../../../../core/policy/estimate/quantile.ts'
import { runScenario } from '../../run/run-scenario.ts'
import type { AnswerRecord } from '../../world/answer-record.ts'
import type { PaperRun } from '../quantity.ts'
import { paperDecodeSla, paperPrefillSla } from './published.ts'
import { type Planned, scenarioOf, statedPerS } from './scenarios.ts'

/** Points of the curves of Figs. 9 and 10. */
const curvePoints = 20

/** One simulated run. Times in ms, means over requests. */
export interface Run extends Planned {
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

/** ms of a round: until the rows are sent, up, at the cloud, down, and until the device has chosen. */
export type RoundParts = Readonly<Record<'drafting' | 'uplink' | 'cloud' | 'downlink' | 'choosing', number>>

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

/** The runs, and what the paper's figures need beside them. */
export function comparedRuns(runs: readonly Run[]): readonly PaperRun[] {
  const isStated = ({ purpose, setup }: Run) => purpose === 'rates' && setup.perS === statedPerS(setup.dataset)
  const compared = runs.map((run) => {
    const { setup, roundMs, acceptLength, stages, stageMs, tbtMs } = run
    const shape = runs.find(
      (other) => isStated(other) && other.setup.method === 'u-shape' && other.setup.dataset === setup.dataset,
    )!
    const { drafting, uplink, cloud, downlink, choosing } = roundMs
    const parts = { ...roundMs, link: uplink + downlink, device: drafting + choosing, stages: stages * stageMs, cloud }
    return {
      ...setup,
      ...run,
      besideUShapePercent: (100 * tbtMs) / shape.tbtMs - 100,
      perTokenMs: Object.fromEntries(Object.entries(parts).map(([part, ms]) => [part, ms / acceptLength])),
      prefillPoints: shareWithin(run.prefillCurveMs),
      decodePoints: shareWithin(run.decodeCurveMs),
    }
  })
  const byStages = compared.filter((run) => isStated(run) || run.variation === 'P = 1' || run.variation === 'P = 2')
  return [
    ...compared,
    ...byStages.filter(({ purpose }) => purpose !== 'improved').map((run) => ({ ...run, purpose: 'by stages' })),
  ]
}

/** Percent of requests within a time, but for the slowest twentieth, which would leave the rest no width. */
function shareWithin(curve: readonly number[]): readonly (readonly [number, number])[] {
  const points = curve.slice(0, -1).map((ms, at) => [ms, (100 * at) / (curve.length - 1)] as const)
  return points.filter(([ms], at) => points[at + 1]?.[0] !== ms)
}
