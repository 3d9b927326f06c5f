import type { Endpoint } from '../../core/answer/endpoint.ts'
import {
  deviceEstimate,
  type ServerEstimate,
  type StartEstimate,
  serverEstimate,
} from '../../core/policy/disco/start-estimates.ts'
import type { LinearFit } from '../../core/policy/estimate/linear-fit.ts'
import type { Spender } from './budget.ts'
import type { AnswerSide } from './side.ts'
import type { SmallModelSlots } from './small-model-slots.ts'

/** What could write answers on one side. Its estimated start is infinitely late while it is busy. */
interface Candidate extends StartEstimate {
  readonly endpoint: Endpoint
  readonly spender: Spender
  readonly continues: boolean
  readonly pauses: boolean
}

/** The small model. */
export interface DeviceCandidate extends Candidate {
  readonly slots: SmallModelSlots
}

/** HAT, the bridge's own model, or another server. */
export interface ServerCandidate extends Candidate, ServerEstimate {
  /** As of `AnswerSide`. */
  readonly maxPromptTokens?: AnswerSide['maxPromptTokens']
  /** Resolves when it can be reached again, after it has failed; absent: unknown. */
  untilReachable?(signal: AbortSignal): Promise<void>
}

type Made<C extends Candidate> = Pick<C, 'endpoint' | 'spender' | 'continues' | 'pauses'>

/** @param estimated arguments of `serverEstimate` */
export function serverCandidate(
  made: Made<ServerCandidate> & Pick<ServerCandidate, 'untilReachable' | 'maxPromptTokens'>,
  ...estimated: Parameters<typeof serverEstimate>
): ServerCandidate {
  return { ...made, ...serverEstimate(...estimated) }
}

/** @param fit and the speed are as of `deviceEstimate` */
export function deviceCandidate(
  made: Omit<Made<DeviceCandidate>, 'spender' | 'continues' | 'pauses'>,
  slots: SmallModelSlots,
  fit: LinearFit,
  prefillTokensPerS: number | undefined,
): DeviceCandidate {
  const estimate = deviceEstimate(fit, prefillTokensPerS)
  return {
    ...made,
    ...estimate,
    spender: 'slm',
    continues: true,
    pauses: true,
    slots,
    startMs: (tokens) => (slots.isFree ? estimate.startMs(tokens) : Number.POSITIVE_INFINITY),
  }
}
