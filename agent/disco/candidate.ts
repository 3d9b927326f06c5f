import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { LocalStarts, RemoteStarts } from '../../core/policy/disco/dispatch-estimates.ts'
import type { Spender } from '../../core/policy/disco/spending-book.ts'
import type { AnswerSide } from './side.ts'

/** What could write answers on one side. */
interface Candidate extends Pick<AnswerSide, 'continues' | 'pauses'> {
  readonly endpoint: Endpoint
  readonly spender: Spender
}

/** The small model. */
export interface LocalCandidate extends Candidate, LocalStarts {}

/** HAT, the bridge's own model, or another server. */
export interface RemoteCandidate extends Candidate, RemoteStarts, Pick<AnswerSide, 'maxPromptTokens' | 'untilReachable'> {
  /** Of a bridge's answers: by its own model, or by its plan, which may sketch. */
  readonly way?: 'bridge' | 'sketches'
  /** Whether it can be reached now; absent: unknown. */
  readonly isReachable?: boolean
}
