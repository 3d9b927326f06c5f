import { randomUUID } from 'node:crypto'
import { type BridgeMode, isBridgeMode } from '../../core/kit/base/answer-modes.ts'
import type { AnswerLog, ResumableEndpoint } from '../llm/journalled-endpoint.ts'
import { messagesOf } from './conversation.ts'
import { type AnswerParts, PiceAnswer } from './pice-answer.ts'

/**
 * Answers to conversations, in text: by the bridge's LLM alone, or by a sketch of it that devices expand (PICE), as the request wants
 * and the plan finds. Every failure of devices ends in text of the LLM.
 * @param mode of requests that name none
 */
export function piceEndpoint(parts: AnswerParts, mode: BridgeMode): ResumableEndpoint {
  const { model } = parts.llm
  const logged = (log?: AnswerLog): ResumableEndpoint => ({
    model,
    async *answer(request, signal) {
      const asked = { request, messages: messagesOf(request.prompt) }
      const own = isBridgeMode(request.mode) ? request.mode : mode
      yield* new PiceAnswer(parts, asked, own, log ?? unlogged(), signal).deltas()
    },
    logged,
  })
  return logged()
}

/** Of an answer that no client can resume. */
const unlogged = (): AnswerLog => ({ id: randomUUID(), written: [], begin: () => {}, append: () => {} })
