import type { Endpoint } from '../../core/answer/endpoint.ts'
import {
  localEstimate,
  type RemoteEstimate,
  remoteEstimate,
  type StartEstimate,
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
export interface LocalCandidate extends Candidate {
  readonly slots: SmallModelSlots
}

/** HAT, the bridge's own model, or another server. */
export interface RemoteCandidate extends Candidate, RemoteEstimate {
  /** As of `AnswerSide`. */
  readonly maxPromptTokens?: AnswerSide['maxPromptTokens']
  /** Resolves when it can be reached again, after it has failed; absent: unknown. */
  untilReachable?(signal: AbortSignal): Promise<void>
}

type Made<C extends Candidate> = Pick<C, 'endpoint' | 'spender' | 'continues' | 'pauses'>

/** @param estimated arguments of `remoteEstimate` */
export function remoteCandidate(
  made: Made<RemoteCandidate> & Pick<RemoteCandidate, 'untilReachable' | 'maxPromptTokens'>,
  ...estimated: Parameters<typeof remoteEstimate>
): RemoteCandidate {
  return { ...made, ...remoteEstimate(...estimated) }
}

/** @param fit and the speed are as of `localEstimate` */
export function localCandidate(
  made: Omit<Made<LocalCandidate>, 'spender' | 'continues' | 'pauses'>,
  slots: SmallModelSlots,
  fit: LinearFit,
  prefillTokensPerS: number | undefined,
): LocalCandidate {
  const estimate = localEstimate(fit, prefillTokensPerS)
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
