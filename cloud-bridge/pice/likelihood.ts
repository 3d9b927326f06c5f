import { type Endpoint, isTokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'

/** Tokens of a text that are scored: one row of logits each. */
const maxTokens = 64

/**
 * Mean log2 probability of the tokens with which an answer to these messages would begin; undefined for a text without tokens.
 * @throws BrimError as the endpoint's answers
 */
export type Likelihood = (
  messages: readonly ChatMessage[],
  text: string,
  client: string,
  signal: AbortSignal,
) => Promise<number | undefined>

/** In one prefill of a model that runs here; undefined for one on another server, which does not tell. */
export function likelihoodBy(endpoint: Endpoint): Likelihood | undefined {
  if (!isTokenEndpoint(endpoint)) return undefined
  const { model } = endpoint
  return async (messages, text, client, signal) => {
    const ids = model.tokenizer.encode(text, { addSpecialTokens: false }).slice(0, maxTokens)
    if (ids.length === 0) return undefined
    const prompt = new Prompt({ kind: 'chat', messages })
    const asked = { prompt, answered: { model, ids }, scoresAnswered: true, maxTokens: 1, sampling: greedy, stop: [], client }
    for await (const { answeredLog2 = [] } of endpoint.answer(asked, signal))
      if (answeredLog2.length > 0) return answeredLog2.reduce((sum, value) => sum + value, 0) / answeredLog2.length
    return undefined
  }
}
