import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { RemoteModel } from '../../core/answer/endpoint/text-model.ts'
import { createAttempts } from '../../core/answer/upstream/attempts.ts'
import type { UpstreamLimits } from '../../core/answer/upstream/endpoint.ts'
import { readAnswer } from '../../core/answer/upstream/read-answer.ts'
import { promptTokensOf, upstreamRequest } from '../../core/answer/upstream/request-body.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import { bridgeAsker, clientNames } from './ask-bridge.ts'
import { BridgeFailures } from './bridge-failures.ts'
import type { BridgeLlmOptions } from './bridge-llm.ts'

interface BridgeSketchesOptions extends Omit<BridgeLlmOptions, 'model' | 'modelId' | 'limits'> {
  readonly limits: UpstreamLimits
  /** 'sketch': whatever the bridge's plan would be. */
  readonly mode: Extract<BridgeMode, 'auto' | 'sketch'>
}

/** Any model of the bridge. */
const name = 'brim'

/**
 * The bridge's answers of a mode that may sketch, as text: its LLM may write a sketch that other devices expand (PICE), so that an answer has
 * tokens of several models. The bridge sees question and answer.
 */
export function bridgeSketches({ bridge, leavingOf, limits, mode, ...options }: BridgeSketchesOptions): Endpoint {
  const model: RemoteModel = { name }
  const failures = new BridgeFailures(name)
  const attempts = createAttempts({ ...options, limits, failures })
  const userOf = clientNames()
  const open = bridgeAsker(bridge, limits, failures)
  return {
    model,
    async *answer(request, signal) {
      const { path, body } = upstreamRequest(request, name)
      const { maxTokens = Number.POSITIVE_INFINITY, tokensPerS, client, traceparent } = request
      const brim = { mode, ...(tokensPerS === undefined ? {} : { tokens_per_s: tokensPerS }) }
      const leaving = leavingOf(request)
      const asked = { path, leaving, body: { ...body, user: userOf(client), brim }, traceparent }
      const reading = { model, maxTokens, promptTokens: promptTokensOf(request) }
      yield* attempts(
        {
          leaving,
          open: (watchdog, stopping) => open(asked, watchdog, stopping),
          read: (stream, watchdog) => readAnswer(stream, reading, limits, watchdog, failures),
        },
        signal,
      )
    },
  }
}
