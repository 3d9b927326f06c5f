import { FieldError } from '../../wire/openai/api-error.ts'
import { structuredBody } from '../../wire/openai/structured.ts'
import type { AnswerRequest } from '../endpoint/endpoint.ts'
import { fewestTokens } from '../endpoint/fewest-tokens.ts'
import { textOf } from '../endpoint/text-model.ts'

/** OpenAI's own API accepts no more; the reader of the answer looks for all of them again. */
const maxStops = 4

export interface UpstreamRequest {
  /** Below the base URL. */
  readonly path: 'chat/completions' | 'completions'
  readonly body: object
}

/** Bounds of a server's own count. */
export interface PromptTokens {
  readonly least: number
  readonly most: number
}

export interface RequestOptions {
  /** Whether the log probability of each token is asked for. Default: false. */
  readonly scored?: boolean | undefined
  /** Whether the server goes on after the beginning of an answer that it is given. Default: false. */
  readonly continues?: boolean | undefined
}

/**
 * A request in the form of OpenAI's API. Settings that OpenAI's own server does not know are sent only where they have an effect.
 * @param model the name that the upstream uses
 * @throws FieldError REQUEST_INVALID for what text of another server cannot have
 */
export function upstreamRequest(
  request: AnswerRequest,
  model: string,
  { scored = false, continues = false }: RequestOptions = {},
): UpstreamRequest {
  const { prompt, answered, maxTokens, sampling, logprobs, stop, ignoreEos, grammar, tools } = request
  const { temperature, topP, topK, minP = 0, presencePenalty = 0, frequencyPenalty = 0, seed } = sampling
  if (logprobs !== undefined)
    throw new FieldError('REQUEST_INVALID', 'logprobs', `${model} runs on another server, and reports no log probabilities`)
  const begun = answered ? textOf(answered) : ''
  if (begun !== '' && !continues)
    throw new FieldError(
      'REQUEST_INVALID',
      'continue_final_message',
      `${model} runs on another server, which may not go on with an answer that it has not begun`,
      'leave out the beginning of the answer; or, where that server continues a last message of the assistant, configure that it does',
    )
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
    ...structuredBody(grammar),
    ...tools?.body,
  }
  return content.kind === 'chat'
    ? {
        path: 'chat/completions',
        body: { ...conversation(content.messages, begun), ...settings, ...(scored && { logprobs: true }) },
      }
    : { path: 'completions', body: { prompt: content.text + begun, ...settings, ...(scored && { logprobs: 1 }) } }
}

/** Tokens that a server's chat template and its own instructions may add to a prompt. */
const maxTemplateTokens = 512

/** What a server can count of a request's prompt and the answer so far: no fewer tokens than words; one a byte, and its template. */
export function promptTokensOf({ prompt, answered }: Pick<AnswerRequest, 'prompt' | 'answered'>): PromptTokens {
  const content = prompt.asText()
  const begun = answered ? textOf(answered) : ''
  const texts = content.kind === 'chat' ? content.messages.map((message) => message.content ?? '') : [content.text]
  // The names of roles stand for the tokens that separate messages.
  const sent = content.kind === 'chat' ? JSON.stringify(content.messages) : content.text
  return {
    least: [...texts, begun].reduce((sum, text) => sum + fewestTokens(text).tokens, 0),
    most: Buffer.byteLength(sent) + Buffer.byteLength(begun) + maxTemplateTokens,
  }
}

/** As vLLM and SGLang continue a last message of the assistant; llama.cpp does it without being told. */
const conversation = (messages: readonly object[], begun: string): object =>
  begun === ''
    ? { messages }
    : {
        messages: [...messages, { role: 'assistant', content: begun }],
        continue_final_message: true,
        add_generation_prompt: false,
      }
