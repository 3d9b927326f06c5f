import { stallsOf } from '../needed-gpus.ts'
import type { ScenarioResult } from '../run/result.ts'
import { dollarsPerKwh, dollarsPerToken } from './fleet-scenario.ts'
import { keepsText, type Method } from './methods.ts'
import type { DayRequest } from './trace-day.ts'

const joulesPerKwh = 3.6e6

/** One run of a method: what its readers got, and what it took. @param requests of the run, those that count */
export function fleetRun(
  method: Method,
  { gpus, seed }: { readonly gpus: number; readonly seed: number },
  result: ScenarioResult,
  requests: readonly DayRequest[],
) {
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
    /** Refused, or without an end. */
    unserved: all.requests - all.answered,
    ttftMeanMs: all.ttftMs.mean,
    ttftP95Ms: all.ttftMs.p95,
    ttftP99Ms: all.ttftMs.p99,
    /** Mean of the answers' means. */
    tbtMs: all.answerTbtMs.mean,
    /** To the last token, mean. */
    latencyMs: all.latencyMs.mean,
    /** Quality of experience, mean. */
    qoe: all.qualityOfExperience,
    /**
     * TokenFlow Eq. 2, of each request. Runs last as long as their slowest answer: what each second has would punish those that
     * pace answers.
     */
    qos: (all.qos * durationS) / all.requests,
    /** Waiting after the first token over reading time. */
    stalls: stallsOf(all),
    /** Of the cloud's tokens, and of the devices' energy, for a thousand requests. */
    tokenDollars:
      perThousand * (dollarsPerToken.prompt * work.serverPromptTokens + dollarsPerToken.output * work.serverOutputTokens),
    energyDollars: (perThousand * dollarsPerKwh * work.joules) / joulesPerKwh,
    /** Of devices, beside idle power, for a request. */
    joules: work.joules / all.requests,
    gpuBusy: engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, engines.length),
    /** Private requests whose text left the device. */
    privateLeft: keepsText(method) ? 0 : (modes.private?.atServer ?? 0),
    privateRequests: modes.private?.requests ?? 0,
    /** Share of the tokens that were written by small models. */
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
export type FleetRun = ReturnType<typeof fleetRun>

const modeOf = ({ modes }: Method, part: string) => modes[part as keyof Method['modes']]
