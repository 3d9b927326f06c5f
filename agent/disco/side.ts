import type { Endpoint } from '../../core/answer/endpoint.ts'
import type { TokenCosts } from '../../core/policy/disco/state.ts'

/** One of the two endpoints of an answer, and what is known of it now. */
export interface AnswerSide {
  readonly endpoint: Endpoint
  /** Whether it can go on with an answer that another endpoint began (`AnswerRequest.answered`). */
  readonly continues: boolean
  /** Whether it computes only what is read: it may stop in the middle of an answer, and go on at once without new costs. */
  readonly pauses: boolean
  /** Undefined where a price is unknown. */
  readonly costs: TokenCosts | undefined
  /** Estimated time to its first token, in ms. @param tokens of the prompt, and of the answer so far */
  startMs(tokens: number): number
}
