import { stallsOf } from '../needed-gpus.ts'
import type { ScenarioResult } from '../run/result.ts'
import { dollarsPerKwh, dollarsPerToken } from './fleet-scenario.ts'
import { keepsText, type Method } from './methods.ts'
import type { DayRequest } from './trace-day.ts'

/** One run of a method: what its readers got, and what it took. Of the requests that count. */
export interface FleetRun {
  readonly method: string
  readonly gpus: number
  readonly seed: number
  readonly requests: number
  /** Refused, or without an end. */
  readonly unserved: number
  readonly ttftMeanMs: number
  readonly ttftP95Ms: number
  readonly ttftP99Ms: number
  /** Mean of the answers' means. */
  readonly tbtMs: number
  /** To the last token, mean. */
  readonly latencyMs: number
  /** Quality of experience, mean. */
  readonly qoe: number
  /** TokenFlow Eq. 2, of each request. */
  readonly qos: number
  /** Waiting after the first token over reading time. */
  readonly stalls: number
  /** Of the cloud's tokens, and of the devices' energy, for a thousand requests. */
  readonly tokenDollars: number
  readonly energyDollars: number
  /** Of devices, beside idle power, for a request. */
  readonly joules: number
  readonly gpuBusy: number
  /** Private requests whose text left the device. */
  readonly privateLeft: number
  readonly privateRequests: number
  /** Share of the tokens that were written by small models. */
  readonly bySmallModels: number
  /** Answers that were sketched. */
  readonly sketchTokens: number
  readonly durationS: number
  readonly parts: readonly PartRun[]
}

export interface PartRun {
  readonly part: string
  readonly requests: number
  readonly ttftMeanMs: number
  readonly ttftP95Ms: number
  readonly latencyMs: number
  readonly qoe: number
}

const joulesPerKwh = 3.6e6

/** @param requests of the run, those that count */
export function fleetRun(
  method: Method,
  { gpus, seed }: Pick<FleetRun, 'gpus' | 'seed'>,
  result: ScenarioResult,
  requests: readonly DayRequest[],
): FleetRun {
  const { all, modes, engines, durationS } = result
  const { work } = all
  const perThousand = 1_000 / all.requests
  const outputTokens = requests.reduce((sum, request) => sum + request.outputTokens, 0)
  // Under HAT device and cloud make each token together, with the cloud's model.
  const bySplit = Object.entries(modes).reduce(
    (sum, [part, { work: own }]) => sum + (modeOf(method, part) === 'hat' ? own.deviceOutputTokens : 0),
    0,
  )
  return {
    method: method.name,
    gpus,
    seed,
    requests: all.requests,
    unserved: all.requests - all.answered,
    ttftMeanMs: all.ttftMs.mean,
    ttftP95Ms: all.ttftMs.p95,
    ttftP99Ms: all.ttftMs.p99,
    tbtMs: all.answerTbtMs.mean,
    latencyMs: all.latencyMs.mean,
    qoe: all.qualityOfExperience,
    // Runs last as long as their slowest answer: what each second has would punish those that pace answers.
    qos: (all.qos * durationS) / all.requests,
    stalls: stallsOf(all),
    tokenDollars:
      perThousand * (dollarsPerToken.prompt * work.serverPromptTokens + dollarsPerToken.output * work.serverOutputTokens),
    energyDollars: (perThousand * dollarsPerKwh * work.joules) / joulesPerKwh,
    joules: work.joules / all.requests,
    gpuBusy: engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, engines.length),
    privateLeft: keepsText(method) ? 0 : (modes.private?.atServer ?? 0),
    privateRequests: modes.private?.requests ?? 0,
    bySmallModels: (work.deviceOutputTokens - bySplit) / outputTokens,
    sketchTokens: work.sketchTokens,
    durationS,
    parts: Object.entries(modes).map(([part, own]) => ({
      part,
      requests: own.requests,
      ttftMeanMs: own.ttftMs.mean,
      ttftP95Ms: own.ttftMs.p95,
      latencyMs: own.latencyMs.mean,
      qoe: own.qualityOfExperience,
    })),
  }
}

const modeOf = ({ modes }: Method, part: string) => modes[part as keyof Method['modes']]
