import { createHash } from 'node:crypto'
import { FieldError } from '../../core/openai/api-error.ts'
import { ChatRequest, CompletionRequest, parseRequest } from '../../core/openai/request.ts'
import type { AnswerRequest, Endpoint } from '../answer/endpoint.ts'
import { withFallback } from '../answer/fallback.ts'
import { Prompt } from '../answer/prompt.ts'
import { sharesTokens } from '../answer/text-model.ts'

/** As in AgentLimits. */
export interface RequestLimits {
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
  readonly slm?: Endpoint | undefined
  /** For requests without a seed. */
  readonly nextSeed: () => number
}

/** A request to the API. */
export interface ApiRequest {
  readonly endpoint: Endpoint
  readonly answer: AnswerRequest
  readonly stream: boolean
  /** Whether a stream ends with an event of usage. */
  readonly includeUsage: boolean
  /** Whether the report has the token ids. */
  readonly tokenIds: boolean
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
  if (slm && wantsFallback(request) && !sharesTokens(slm.model, endpoint.model)) requireChatTemplate(slm, fallbackField)
  const maxTokens = request.max_completion_tokens ?? request.max_tokens
  return apiRequest(request, new Prompt({ kind: 'chat', messages: request.messages }), maxTokens, served, authorization)
}

/** @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN naming the field */
export function readCompletionRequest(body: unknown, served: Served, authorization: string | undefined): ApiRequest {
  const request = parseRequest(CompletionRequest, body)
  const { prompt } = request
  if (typeof prompt === 'string') requireSize('prompt', prompt, served.requestLimits)
  const { model } = served.endpoint
  const content =
    typeof prompt === 'string'
      ? { kind: 'text' as const, text: prompt }
      : { kind: 'ids' as const, tokens: { model, ids: prompt } }
  return apiRequest(request, new Prompt(content), request.max_tokens, served, authorization)
}

type CommonFields = Omit<CompletionRequest, 'prompt'>

const fallbackField = 'brim.fallback'
const wantsFallback = ({ brim }: CommonFields) => brim?.fallback === 'slm'

function apiRequest(
  request: CommonFields,
  prompt: Prompt,
  maxTokens: number | null | undefined,
  { modelNames, endpoint, slm, nextSeed }: Served,
  authorization = '',
): ApiRequest {
  const { model, temperature, top_p, top_k, seed, stop, user } = request
  if (model != null && !modelNames.includes(model)) throw unknownModel(model, modelNames[0])
  if (wantsFallback(request) && !slm)
    throw new FieldError(
      'REQUEST_INVALID',
      fallbackField,
      'this device has no small model',
      'start the agent with --slm <bundle folder>',
    )
  return {
    endpoint: wantsFallback(request) && slm ? withFallback(endpoint, slm) : endpoint,
    answer: {
      prompt,
      ...(maxTokens == null ? {} : { maxTokens }),
      sampling: { temperature: temperature ?? 1, topP: top_p ?? 1, topK: top_k ?? 0, seed: seed ?? nextSeed() },
      stop: typeof stop === 'string' ? [stop] : (stop ?? []),
      client: createHash('sha256')
        .update(`${authorization}\n${user ?? ''}`)
        .digest('hex'),
    },
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

function requireSize(field: 'messages' | 'prompt', text: string, { apiPromptBytes }: RequestLimits): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > apiPromptBytes) throw tooLarge(field, `has ${bytes} bytes`, apiPromptBytes, 'apiPromptBytes')
}

const tooLarge = (field: string, what: string, limit: number, name: keyof RequestLimits) =>
  new FieldError('REQUEST_INVALID', field, `"${field}" ${what}; the limit is ${limit}`, `send less, or raise the limit ${name}`)

function requireChatTemplate({ model: { name, chatTemplate } }: Endpoint, field: string): void {
  if (!chatTemplate)
    throw new FieldError('CHAT_TEMPLATE_INVALID', field, `the model ${name} has no chat template`, 'use /v1/completions')
}
