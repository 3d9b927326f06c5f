import { createHash } from 'node:crypto'
import { type AnswerRequest, type Endpoint, isTokenEndpoint, type TokenEndpoint } from '../answer/endpoint.ts'
import { withFallback } from '../answer/fallback.ts'
import { Prompt } from '../answer/prompt.ts'
import { sharesTokens } from '../answer/text-model.ts'
import { FieldError } from '../openai/api-error.ts'
import { ChatRequest, CompletionRequest, ignoredFields, parseRequest } from '../openai/request.ts'

/** As in AgentLimits. */
export interface RequestLimits {
  /** Answers to one request: prompts times `n`. */
  readonly apiAnswers: number
  /** Values in the JSON of a request. */
  readonly apiJsonValues: number
  /** Size of a prompt, or of messages as JSON, in bytes. */
  readonly apiPromptBytes: number
  /** Messages of a conversation. */
  readonly apiPromptMessages: number
}

/** What the API serves. */
export interface Served {
  readonly requestLimits: RequestLimits
  /** What the model is called here; responses name the first. */
  readonly modelNames: readonly [string, ...string[]]
  readonly endpoint: Endpoint
  /** The device's small model, which may continue answers that lose their bridge; absent: the device has none. */
  readonly slm?: TokenEndpoint | undefined
  /** For requests without a seed. */
  readonly nextSeed: () => number
}

/** A request to the API. */
export interface ApiRequest {
  readonly endpoint: Endpoint
  /** Made one after the other. */
  readonly answers: readonly AnswerRequest[]
  readonly stream: boolean
  /** Whether a stream ends with an event of usage. */
  readonly includeUsage: boolean
  /** Whether the report has the token ids. */
  readonly tokenIds: boolean
  /** Fields of the body that have no effect, the first of them where there are many. */
  readonly ignored: readonly string[]
}

/**
 * @param authorization the request's header: OpenAI clients send their API key there
 * @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN, CHAT_TEMPLATE_INVALID naming the field
 */
export function readChatRequest(body: unknown, served: Served, authorization: string | undefined): ApiRequest {
  requireMessageCount(body, served.requestLimits)
  const request = parseRequest(ChatRequest, body)
  requireSize('messages', JSON.stringify(request.messages), served.requestLimits)
  requireChatTemplate(served.endpoint, 'messages')
  const { endpoint, slm } = served
  if (slm && wantsFallback(request) && isTokenEndpoint(endpoint) && !sharesTokens(slm.model, endpoint.model))
    requireChatTemplate(slm, fallbackField)
  const maxTokens = request.max_completion_tokens ?? request.max_tokens
  const prompts = [new Prompt({ kind: 'chat', messages: request.messages })]
  return {
    ...apiRequest(request, prompts, maxTokens, served, authorization),
    ignored: ignoredFields(ChatRequest, body, maxIgnored),
  }
}

/** @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN naming the field */
export function readCompletionRequest(body: unknown, served: Served, authorization: string | undefined): ApiRequest {
  requirePromptCount(body, served.requestLimits)
  const request = parseRequest(CompletionRequest, body)
  const contents = promptsOf(request.prompt, served)
  requireSize('prompt', contents.map((content) => (content.kind === 'text' ? content.text : '')).join(''), served.requestLimits)
  const prompts = contents.map((content) => new Prompt(content))
  return {
    ...apiRequest(request, prompts, request.max_tokens, served, authorization),
    ignored: ignoredFields(CompletionRequest, body, maxIgnored),
  }
}

type CommonFields = Omit<CompletionRequest, 'prompt'>

function promptsOf(given: CompletionRequest['prompt'], { endpoint: { model } }: Served) {
  const isOne = typeof given === 'string' || typeof given[0] === 'number'
  const prompts = (isOne ? [given] : given) as readonly (string | number[])[]
  return prompts.map((prompt) => {
    if (typeof prompt === 'string') return { kind: 'text', text: prompt } as const
    if (model.tokenizer) return { kind: 'ids', tokens: { model, ids: prompt } } as const
    throw new FieldError('REQUEST_INVALID', 'prompt', `${model.name} runs on another server, and takes text`, 'send a text')
  })
}

/** Names in a header. */
const maxIgnored = 16

const fallbackField = 'brim.fallback'
const wantsFallback = ({ brim }: CommonFields) => brim?.fallback === 'slm'

function apiRequest(
  request: CommonFields,
  prompts: readonly Prompt[],
  maxTokens: number | null | undefined,
  { modelNames, endpoint, slm, nextSeed, requestLimits: { apiAnswers } }: Served,
  authorization = '',
): Omit<ApiRequest, 'ignored'> {
  const { model, temperature, top_p, top_k, seed, stop, ignore_eos, user, n } = request
  const each = n ?? 1
  const total = prompts.length * each
  if (total > apiAnswers) throw tooLarge('n', `asks for ${total} answers`, apiAnswers, 'apiAnswers')
  if (model != null && !modelNames.includes(model)) throw unknownModel(model, modelNames[0])
  if (wantsFallback(request) && !slm)
    throw new FieldError(
      'REQUEST_INVALID',
      fallbackField,
      'this device has no small model',
      'start the agent with --slm <bundle folder>',
    )
  const client = createHash('sha256')
    .update(`${authorization}\n${user ?? ''}`)
    .digest('hex')
  /** @param nth of the answers to this prompt: each has noise of its own. */
  const answerTo = (prompt: Prompt, nth: number): AnswerRequest => ({
    prompt,
    ...(maxTokens == null ? {} : { maxTokens }),
    sampling: { temperature: temperature ?? 1, topP: top_p ?? 1, topK: top_k ?? 0, seed: seed == null ? nextSeed() : seed + nth },
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    ...(ignore_eos ? { ignoreEos: true } : {}),
    client,
  })
  return {
    endpoint: wantsFallback(request) && slm && isTokenEndpoint(endpoint) ? withFallback(endpoint, slm) : endpoint,
    answers: prompts.flatMap((prompt) => Array.from({ length: each }, (_, nth) => answerTo(prompt, nth))),
    stream: request.stream ?? false,
    includeUsage: request.stream_options?.include_usage ?? false,
    tokenIds: request.brim?.token_ids ?? false,
  }
}

export const unknownModel = (model: string, served: string) =>
  new FieldError('MODEL_UNKNOWN', 'model', `unknown model "${model}"`, `this agent serves "${served}"`)

/** Before each message is checked. */
function requireMessageCount(body: unknown, { apiPromptMessages }: RequestLimits): void {
  const messages = (body as { messages?: unknown } | null)?.messages
  if (!Array.isArray(messages) || messages.length <= apiPromptMessages) return
  throw tooLarge('messages', `has ${messages.length} messages`, apiPromptMessages, 'apiPromptMessages')
}

/** Before each prompt is checked. */
function requirePromptCount(body: unknown, { apiAnswers }: RequestLimits): void {
  const prompt = (body as { prompt?: unknown } | null)?.prompt
  if (!Array.isArray(prompt) || typeof prompt[0] === 'number' || prompt.length <= apiAnswers) return
  throw tooLarge('prompt', `asks for ${prompt.length} answers`, apiAnswers, 'apiAnswers')
}

function requireSize(field: 'messages' | 'prompt', text: string, { apiPromptBytes }: RequestLimits): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > apiPromptBytes) throw tooLarge(field, `has ${bytes} bytes`, apiPromptBytes, 'apiPromptBytes')
}

const tooLarge = (field: string, what: string, limit: number, name: keyof RequestLimits) =>
  new FieldError('REQUEST_INVALID', field, `"${field}" ${what}; the limit is ${limit}`, `send less, or raise the limit ${name}`)

function requireChatTemplate({ model }: Endpoint, field: string): void {
  if (!model.tokenizer || model.chatTemplate) return
  throw new FieldError('CHAT_TEMPLATE_INVALID', field, `the model ${model.name} has no chat template`, 'use /v1/completions')
}
