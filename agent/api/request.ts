import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Sampling } from '../../core/engine/sampler.ts'
import { FieldError } from '../../core/openai/api-error.ts'
import type { ChatMessage, ChatTemplate } from '../../core/text/chat-template.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { LocalPrompt } from '../answer/hand-over.ts'
import type { LocalModel } from '../slm/local-model.ts'

/** A request of either kind, understood. */
export interface AnswerRequest {
  readonly promptIds: readonly number[]
  /** Absent: as many as the context holds. */
  readonly maxTokens?: number
  readonly sampling: Sampling
  readonly stop: readonly string[]
  readonly stream: boolean
  /** Usage in a chunk of its own at the end of a stream. */
  readonly includeUsage: boolean
  /** Our extension: token ids in the `brim` field. */
  readonly tokenIds: boolean
  /** Our extension: the device's own model may go on with this where no bridge does. Absent: it may not. */
  readonly fallback?: LocalPrompt
  /** Who asks, as far as this device can tell one application from another. */
  readonly client: string
}

export interface RequestContext {
  /** The request's Authorization header: OpenAI clients send their API key there. */
  readonly authorization?: string | undefined
  /** What the model is called here; the first is what answers bear. */
  readonly modelNames: readonly string[]
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** What answers may fall back to. */
  readonly local?: LocalModel | undefined
  /** For requests that bring no seed. */
  readonly nextSeed: () => number
}

const common = {
  model: z.string().nullish(),
  max_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  /** Extension: only the k likeliest tokens. */
  top_k: z.int().min(0).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1))]).nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.literal(1, { error: 'only one answer a request (n = 1)' }).nullish(),
  brim: z.object({ token_ids: z.boolean().nullish(), fallback: z.enum(['none', 'slm']).nullish() }).nullish(),
}

const TextPart = z.object({ type: z.literal('text', { error: 'only text parts are understood' }), text: z.string() })

const ChatBody = z.object({
  ...common,
  max_completion_tokens: z.int().min(1).nullish(),
  messages: z.array(z.looseObject({ role: z.string(), content: z.union([z.string(), z.array(TextPart)]).nullish() })).min(1),
})

const CompletionBody = z.object({ ...common, prompt: z.union([z.string(), z.array(z.int().min(0)).min(1)]) })

/** Fields that would change the answer and that we do not have, with the values under which they change nothing. */
const unsupported: Readonly<Record<string, readonly unknown[]>> = {
  tools: [[]],
  functions: [[]],
  response_format: [{ type: 'text' }],
  logprobs: [false],
  top_logprobs: [0],
  logit_bias: [{}],
  presence_penalty: [0],
  frequency_penalty: [0],
  best_of: [1],
  echo: [false],
  suffix: [''],
}

/** @throws BrimError REQUEST_INVALID, MODEL_UNKNOWN (FieldError naming the field), CHAT_TEMPLATE_INVALID */
export function readChatRequest(body: unknown, context: RequestContext): AnswerRequest {
  const request = parse(ChatBody, body)
  const { chatTemplate, tokenizer } = context
  if (!chatTemplate)
    throw new FieldError('CHAT_TEMPLATE_INVALID', 'messages', 'this model has no chat template', 'use /v1/completions')
  const messages = request.messages.map(toMessage)
  // The template has written the special tokens itself.
  const promptIds = tokenizer.encode(chatTemplate.render(messages), { addSpecialTokens: false })
  const maxTokens = request.max_completion_tokens ?? request.max_tokens
  return understood(request, maxTokens, promptIds, context, (local) => {
    if (local.chatTemplate) return { kind: 'text', text: local.chatTemplate.render(messages), addSpecialTokens: false }
    throw new FieldError('CHAT_TEMPLATE_INVALID', fallbackField, `${local.name} has no chat template`, 'use /v1/completions')
  })
}

/** @throws BrimError REQUEST_INVALID, MODEL_UNKNOWN (FieldError naming the field) */
export function readCompletionRequest(body: unknown, context: RequestContext): AnswerRequest {
  const request = parse(CompletionBody, body)
  const { prompt } = request
  const promptIds = typeof prompt === 'string' ? context.tokenizer.encode(prompt) : prompt
  return understood(request, request.max_tokens, promptIds, context, () => {
    // Another vocabulary has other special tokens, and puts its own around a text.
    const text = typeof prompt === 'string' ? prompt : context.tokenizer.decode(prompt, { skipSpecialTokens: true })
    return { kind: 'text', text, addSpecialTokens: true }
  })
}

const fallbackField = 'brim.fallback'

/** The prompt for a model that does not read this one's tokens. */
type Retold = (local: LocalModel) => LocalPrompt

function localPrompt(local: LocalModel | undefined, promptIds: readonly number[], retold: Retold): LocalPrompt {
  if (local) return local.sameVocabulary ? { kind: 'ids', ids: promptIds } : retold(local)
  const what = 'this device has no small model of its own'
  throw new FieldError('REQUEST_INVALID', fallbackField, what, 'start the agent with --slm <bundle folder>')
}

type CommonBody = z.infer<z.ZodObject<typeof common>>

function understood(
  request: CommonBody,
  maxTokens: number | null | undefined,
  promptIds: readonly number[],
  { modelNames, nextSeed, local, authorization = '' }: RequestContext,
  retold: Retold,
): AnswerRequest {
  const { model, temperature, top_p, top_k, seed, stop } = request
  if (model != null && !modelNames.includes(model))
    throw new FieldError('MODEL_UNKNOWN', 'model', `there is no model "${model}" here`, `this agent runs "${modelNames[0]}"`)
  const fallback = request.brim?.fallback === 'slm' ? localPrompt(local, promptIds, retold) : undefined
  return {
    promptIds,
    ...(fallback ? { fallback } : {}),
    ...(maxTokens == null ? {} : { maxTokens }),
    sampling: { temperature: temperature ?? 1, topP: top_p ?? 1, topK: top_k ?? 0, seed: seed ?? nextSeed() },
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    stream: request.stream ?? false,
    includeUsage: request.stream_options?.include_usage ?? false,
    tokenIds: request.brim?.token_ids ?? false,
    client: createHash('sha256')
      .update(`${authorization}\n${request.user ?? ''}`)
      .digest('hex'),
  }
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw invalidBody(parsed.error)
  for (const [field, harmless] of Object.entries(unsupported)) {
    const value = (body as Record<string, unknown>)[field]
    if (value == null || harmless.some((allowed) => JSON.stringify(allowed) === JSON.stringify(value))) continue
    throw new FieldError('REQUEST_INVALID', field, `"${field}" is not supported`, 'leave it out')
  }
  return parsed.data
}

/** The innermost complaint: of a union, the one that got furthest. */
function invalidBody(error: z.ZodError): FieldError {
  let [issue] = error.issues
  let path: PropertyKey[] = []
  while (issue) {
    path = [...path, ...issue.path]
    const inner: z.core.$ZodIssue[] = issue.code === 'invalid_union' ? issue.errors.flat() : []
    const [deepest] = inner.sort((a, b) => b.path.length - a.path.length)
    if (!deepest || deepest.path.length === 0) break
    issue = deepest
  }
  const param = path.map(String).join('.')
  const what = param === '' ? 'the body' : `"${param}"`
  return new FieldError('REQUEST_INVALID', param, `${what}: ${issue?.message ?? 'invalid'}`)
}

function toMessage({ content, ...message }: z.infer<typeof ChatBody>['messages'][number]): ChatMessage {
  const text = Array.isArray(content) ? content.map((part) => part.text).join('\n') : (content ?? null)
  return { ...message, content: text }
}
