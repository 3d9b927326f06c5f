import type { AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { sharesTokens } from '../../core/answer/endpoint/text-model.ts'
import type { ControlledSide } from '../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../core/policy/disco/state.ts'

/**
 * One of the two endpoints of an answer, and what is known of it now. It continues by `AnswerRequest.answered`. It pauses where
 * it computes only what is read.
 */
export interface AnswerSide extends ControlledSide {
  readonly endpoint: Endpoint
  /** Tokens of the prompt, where it counts them itself. */
  readonly promptTokens?: number | undefined
  /** Of another server, which is paid: tokens that it can count at most of a prompt and the answer so far. */
  readonly maxPromptTokens?: ((request: AnswerRequest) => number) | undefined
  /** Resolves when an endpoint that has failed can be reached again; rejects with the signal's reason. Absent: an attempt shows it. */
  readonly untilReachable?: ((signal: AbortSignal) => Promise<void>) | undefined
}

/** Whether there are two sides, each of which can go on after the other one's very tokens. */
export function shareTokens({
  local,
  remote,
}: Readonly<Partial<Record<Side, Pick<AnswerSide, 'endpoint'> | undefined>>>): boolean {
  const [a, b] = [local?.endpoint.model, remote?.endpoint.model]
  return a?.tokenizer !== undefined && b?.tokenizer !== undefined && sharesTokens(a, b) && sharesTokens(b, a)
}
