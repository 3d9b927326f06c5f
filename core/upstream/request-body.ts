import type { AnswerRequest } from '../answer/endpoint.ts'
import { FieldError } from '../openai/api-error.ts'

/** OpenAI's own API accepts no more; the reader of the answer looks for all of them again. */
const maxStops = 4

export interface UpstreamRequest {
  /** Below the base URL. */
  readonly path: 'chat/completions' | 'completions'
  readonly body: object
}

/**
 * A request in the form of OpenAI's API. Settings that OpenAI's own server does not know are sent only where they have an effect.
 * @param model the name that the upstream uses
 * @param scored asks for the log probability of each token
 * @throws FieldError REQUEST_INVALID for what text of another server cannot have
 */
export function upstreamRequest(request: AnswerRequest, model: string, scored = false): UpstreamRequest {
  const { prompt, answered, maxTokens, sampling, logprobs, stop, ignoreEos } = request
  const { temperature, topP, topK, minP = 0, presencePenalty = 0, frequencyPenalty = 0, seed } = sampling
  if (logprobs !== undefined)
    throw new FieldError('REQUEST_INVALID', 'logprobs', `${model} runs on another server, and reports no log probabilities`)
  if (answered) throw new Error('an upstream cannot continue the answer of another model')
  const content = prompt.asText()
  const settings = {
    model,
    stream: true,
    stream_options: { include_usage: true },
    temperature,
    top_p: topP,
    seed,
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(stop.length === 0 ? {} : { stop: stop.slice(0, maxStops) }),
    ...(presencePenalty === 0 ? {} : { presence_penalty: presencePenalty }),
    ...(frequencyPenalty === 0 ? {} : { frequency_penalty: frequencyPenalty }),
    ...(topK === 0 ? {} : { top_k: topK }),
    ...(minP === 0 ? {} : { min_p: minP }),
    ...(ignoreEos ? { ignore_eos: true } : {}),
  }
  return content.kind === 'chat'
    ? { path: 'chat/completions', body: { messages: content.messages, ...settings, ...(scored ? { logprobs: true } : {}) } }
    : { path: 'completions', body: { prompt: content.text, ...settings, ...(scored ? { logprobs: 1 } : {}) } }
}
