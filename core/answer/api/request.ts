import { createHash } from 'node:crypto'
import { type AnswerMode, isBridgeMode, isDeviceMode } from '../../kit/base/answer-modes.ts'
import { drainRate, ReaderRate, readerRates } from '../../kit/base/reader-rates.ts'
import type { Grammar } from '../../model/grammar/grammar.ts'
import { FieldError } from '../../wire/openai/api-error.ts'
import { ChatRequest, CompletionRequest, ignoredFields, parseRequest } from '../../wire/openai/request.ts'
import type { ToolRequest } from '../../wire/openai/tools.ts'
import { type AnswerRequest, type Endpoint, isTokenEndpoint } from '../endpoint/endpoint.ts'
import { sharesTokens } from '../endpoint/text-model.ts'
import type { Tools } from '../endpoint/tools.ts'
import { grammarOf } from './grammar-of.ts'
import { type AskedPrompt, conversationOf, textsOf } from './prompts.ts'
import { type ApiModel, modelFor, type RequestLimits, type Served } from './served.ts'
import { toolsOf } from './tools-of.ts'

export interface ApiRequest {
  /** The model's name in responses. */
  readonly model: string
  readonly endpoint: Endpoint
  readonly answers: readonly AnswerRequest[]
  readonly stream: boolean
  /** Whether a stream ends with an event of usage. */
  readonly includeUsage: boolean
  readonly tokenIds: boolean
  /** Whether events, and the choices of a whole response, have the ids of their tokens. */
  readonly returnTokenIds: boolean
  /** Whether log probabilities name tokens by their ids. */
  readonly tokensAsIds: boolean
  /** Fields of the body that have no effect, the first of them where there are many. */
  readonly ignored: readonly string[]
}

/** What a request tells beside its body. */
export interface RequestOrigin {
  /** The asking client: a cached prompt of one client is never reused for another. */
  readonly client: string
  /** The header x-brim-tokens-per-s, for clients that cannot add fields to the body. */
  readonly tokensPerS?: string | string[] | undefined
}

/** @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN, CHAT_TEMPLATE_INVALID naming the field; BrimError MODEL_MISSING */
export function readChatRequest(body: unknown, served: Served, origin: RequestOrigin): ApiRequest {
  requireCount('messages', body)
  const request = parseRequest(ChatRequest, body)
  return conversationRequest(
    request,
    { messages: 'messages', format: 'response_format' },
    served,
    origin,
    ignoredFields(ChatRequest, body, maxIgnored),
  )
}

/**
 * A chat request, or another one in its words.
 * @param fields where the request has its messages and the form of its answer
 * @param ignored fields of the body that have no effect
 * @throws as readChatRequest
 */
export function conversationRequest(
  request: ChatRequest,
  fields: { readonly messages: 'messages' | 'input'; readonly format: string },
  served: Served,
  origin: RequestOrigin,
  ignored: readonly string[],
): ApiRequest {
  requireSize(fields.messages, JSON.stringify(request.messages), served.requestLimits)
  const model = modelFor(request.model, served)
  const { endpoint } = model
  const { slm } = served
  requireChatTemplate(endpoint, fields.messages)
  if (slm && wantsFallback(request) && isTokenEndpoint(endpoint) && !sharesTokens(slm.model, endpoint.model))
    requireChatTemplate(slm, fallbackField)
  const { logprobs, top_logprobs } = request
  if (top_logprobs != null && !logprobs)
    throw new FieldError('REQUEST_INVALID', 'top_logprobs', '"top_logprobs" needs "logprobs": true')
  const tools = toolsOf(request)
  return apiRequest(request, served, origin, ignored, {
    model,
    prompts: [conversationOf(request, tools)],
    tools,
    grammar: grammarOf(request, fields.format),
    maxTokens: request.max_completion_tokens ?? request.max_tokens,
    logprobs: logprobs ? (top_logprobs ?? 0) : undefined,
  })
}

/** @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN naming the field; BrimError MODEL_MISSING */
export function readCompletionRequest(body: unknown, served: Served, origin: RequestOrigin): ApiRequest {
  requirePromptCount(body, served.requestLimits)
  const request = parseRequest(CompletionRequest, body)
  const model = modelFor(request.model, served)
  requireSize('brim.prompt_ids', request.brim?.prompt_ids ?? '', served.requestLimits)
  const { prompts, text } = textsOf(request, model.endpoint)
  requireSize('prompt', text, served.requestLimits)
  return apiRequest(request, served, origin, ignoredFields(CompletionRequest, body, maxIgnored), {
    model,
    prompts,
    tools: undefined,
    grammar: request.brim?.grammar ?? grammarOf(request),
    maxTokens: request.max_tokens,
    logprobs: request.logprobs ?? undefined,
  })
}

type CommonFields = Omit<ChatRequest, 'messages' | 'logprobs' | keyof ToolRequest>

/** Names in a header. */
export const maxIgnored = 16

const fallbackField = 'brim.fallback'
const wantsFallback = ({ brim }: CommonFields) => brim?.fallback === 'slm'
/** Requests that do not say so either, where the owner of the device allows it and it has a small model. */
const mayFallBack = (request: CommonFields, { slm, fallback = 'none' }: Pick<Served, 'slm' | 'fallback'>) =>
  (request.brim?.fallback ?? (slm ? fallback : 'none')) === 'slm'

/** What the two endpoints of OpenAI name differently. */
interface Asked {
  readonly model: ApiModel
  readonly prompts: readonly AskedPrompt[]
  readonly tools: Tools | undefined
  readonly grammar: Grammar | undefined
  readonly maxTokens: number | null | undefined
  readonly logprobs: number | undefined
}

function apiRequest(
  request: CommonFields,
  { slm, fallback, dispatch, nextSeed, requestLimits: { apiAnswers } }: Served,
  origin: RequestOrigin,
  ignored: readonly string[],
  { model, prompts, tools, grammar, maxTokens, logprobs }: Asked,
): ApiRequest {
  const { seed, stop, ignore_eos, user } = request
  const each = request.n ?? 1
  const total = prompts.length * each
  if (total > apiAnswers) throw tooLarge('n', `asks for ${total} answers`, apiAnswers, 'apiAnswers')
  if (wantsFallback(request) && !slm)
    throw new FieldError(
      'REQUEST_INVALID',
      fallbackField,
      'no small model can continue answers here',
      'ask an agent that was started with --slm <bundle folder>',
    )
  const hasForm = grammar !== undefined || tools !== undefined
  const endpoint = endpointFor(request, model, prompts, total, logprobs, hasForm)
  if (request.return_token_ids && !isTokenEndpoint(endpoint)) throw withoutIds(model)
  if (hasForm && ignore_eos)
    throw new FieldError('REQUEST_INVALID', 'ignore_eos', 'an answer with a form ends with it: "ignore_eos" excludes that')
  const mode = modeOf(request, dispatch)
  const rate = request.brim?.tokens_per_s ?? rateOf(origin.tokensPerS)
  // Only devices deliver at the reader's rate; a bridge schedules by it.
  const tokensPerS = dispatch ? rate : drainRate(rate)
  const client = `${clientName(origin.client)}/${user == null ? '' : digest(user)}`
  /** @param nth of the answers to this prompt: each has noise of its own. */
  const answerTo = ({ prompt, answered }: AskedPrompt, nth: number): AnswerRequest => ({
    prompt,
    ...(answered === undefined ? {} : { answered }),
    ...(maxTokens == null ? {} : { maxTokens }),
    sampling: { ...samplingOf(request), seed: seed == null ? nextSeed() : seed + nth },
    ...(grammar === undefined ? {} : { grammar }),
    ...(tools === undefined ? {} : { tools }),
    ...(logprobs === undefined ? {} : { logprobs }),
    ...(tokensPerS === undefined ? {} : { tokensPerS }),
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    ...(ignore_eos ? { ignoreEos: true } : {}),
    ...(request.brim?.token_ids || request.return_token_ids ? { tokenIds: true } : {}),
    ...(request.stream ? {} : { isWhole: true }),
    ...(mode === undefined ? {} : { mode }),
    ...(request.brim?.private ? { isPrivate: true } : {}),
    ...(request.brim?.explain ? { isExplained: true } : {}),
    ...(mayFallBack(request, { slm, fallback }) ? { fallback: 'slm' } : {}),
    client,
  })
  const answers = prompts.flatMap((prompt) => Array.from({ length: each }, (_, nth) => answerTo(prompt, nth)))
  if (answers[0]) dispatch?.check(answers[0])
  return {
    model: model.name,
    endpoint,
    answers,
    stream: request.stream ?? false,
    includeUsage: request.stream_options?.include_usage ?? false,
    tokenIds: request.brim?.token_ids ?? false,
    returnTokenIds: request.return_token_ids ?? false,
    tokensAsIds: request.return_tokens_as_token_ids ?? false,
    ignored: [
      ...(hasNoEffect(request, mode, dispatch !== undefined || endpoint === model.sketching?.endpoint) ? [modeField] : []),
      ...ignored,
    ],
  }
}

const modeField = 'brim.mode'

/**
 * The mode in which the request is answered; undefined: it names none of this server's.
 * @throws FieldError REQUEST_INVALID for a mode that promises more privacy than a bridge has
 */
function modeOf({ brim }: CommonFields, dispatch: Served['dispatch']): AnswerMode | undefined {
  const mode = brim?.mode ?? undefined
  if (dispatch) return isDeviceMode(mode) ? mode : undefined
  if (brim?.private)
    throw new FieldError(
      'REQUEST_INVALID',
      'brim.private',
      'a bridge reads what it answers: it keeps no text private',
      'ask an agent',
    )
  if (mode !== 'private' && mode !== 'local') return isBridgeMode(mode) ? mode : undefined
  throw new FieldError('REQUEST_INVALID', modeField, `a bridge reads what it answers: it has no mode "${mode}"`, 'ask an agent')
}

/** @param canSketch whether devices may expand a sketch of the answer */
const hasNoEffect = ({ brim }: CommonFields, mode: AnswerMode | undefined, canSketch: boolean): boolean =>
  brim?.mode != null && (mode === undefined || (mode === 'sketch' && !canSketch))

/** Sketches are for one answer to a conversation, as free text. What only the LLM's own tokens have is answered in full. */
function endpointFor(
  { brim, ignore_eos, return_token_ids }: CommonFields,
  { endpoint, sketching }: ApiModel,
  [asked]: readonly AskedPrompt[],
  total: number,
  logprobs: number | undefined,
  hasForm: boolean,
): Endpoint {
  const mode = brim?.mode ?? sketching?.mode
  if (!sketching || mode === 'full') return endpoint
  // What such a model thinks first is told apart by its own template; parts of an answer have no place for it.
  const { model } = endpoint
  if (mode === 'auto' && model.tokenizer && model.chatTemplate?.reasoning) return endpoint
  const isNew = total === 1 && asked?.prompt.isConversation && !asked.answered
  const isText = logprobs === undefined && !brim?.token_ids && !return_token_ids && !ignore_eos && !hasForm
  return isNew && isText ? sketching.endpoint : endpoint
}

const withoutIds = ({ name }: ApiModel) =>
  new FieldError('REQUEST_INVALID', 'return_token_ids', `${name} runs on another server, and its token ids are unknown`)

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** With which the `client` of every answer begins that this client asks for; each of its users has a name of its own after it. */
export const clientName = (client: string): string => digest(client)

const samplingOf = (request: CommonFields) => ({
  temperature: request.temperature ?? 1,
  topP: request.top_p ?? 1,
  topK: request.top_k ?? 0,
  minP: request.min_p ?? 0,
  presencePenalty: request.presence_penalty ?? 0,
  frequencyPenalty: request.frequency_penalty ?? 0,
})

/** @throws FieldError REQUEST_INVALID */
function rateOf(header: RequestOrigin['tokensPerS']): number | undefined {
  if (header === undefined) return undefined
  const rate = ReaderRate.safeParse(typeof header === 'string' && header.trim() !== '' ? Number(header) : Number.NaN)
  if (rate.success) return rate.data
  const name = 'x-brim-tokens-per-s'
  const { min, max } = readerRates
  throw new FieldError('REQUEST_INVALID', name, `the header ${name} must be 0, or a number from ${min} to ${max}`)
}

const maxMessages = 4_096

/** Before each message is checked. */
export function requireCount(field: 'messages' | 'input', body: unknown): void {
  const messages = (body as Partial<Record<typeof field, unknown>> | null)?.[field]
  if (!Array.isArray(messages) || messages.length <= maxMessages) return
  throw tooLarge(field, `has ${messages.length} messages`, maxMessages)
}

/** Before each prompt is checked. */
function requirePromptCount(body: unknown, { apiAnswers }: RequestLimits): void {
  const prompt = (body as { prompt?: unknown } | null)?.prompt
  if (!Array.isArray(prompt) || typeof prompt[0] === 'number' || prompt.length <= apiAnswers) return
  throw tooLarge('prompt', `asks for ${prompt.length} answers`, apiAnswers, 'apiAnswers')
}

function requireSize(
  field: 'messages' | 'input' | 'prompt' | 'brim.prompt_ids',
  text: string,
  { apiPromptBytes }: RequestLimits,
): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > apiPromptBytes) throw tooLarge(field, `has ${bytes} bytes`, apiPromptBytes, 'apiPromptBytes')
}

const tooLarge = (field: string, what: string, limit: number, name?: keyof RequestLimits) =>
  new FieldError(
    'REQUEST_INVALID',
    field,
    `"${field}" ${what}; the limit is ${limit}`,
    name ? `send less, or raise the limit ${name}` : 'send less',
  )

function requireChatTemplate({ model }: Endpoint, field: string): void {
  if (!model.tokenizer || model.chatTemplate) return
  throw new FieldError('CHAT_TEMPLATE_INVALID', field, `the model ${model.name} has no chat template`, 'use /v1/completions')
}
