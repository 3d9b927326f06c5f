import { z } from 'zod'
import { listOf } from '../base/list-of.ts'
import type { ChatMessage } from '../text/chat-message.ts'
import { FieldError } from './api-error.ts'

/** Each token of the answer is compared with every stop string. OpenAI allows 4. */
const maxStopStrings = 64
const StopString = z.string().min(1).max(1_024)

const common = {
  model: z.string().max(256).nullish(),
  max_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  /** Extension: only the k likeliest tokens. */
  top_k: z.int().min(0).nullish(),
  seed: z.int().nullish(),
  stop: z.union([StopString, listOf(StopString, { max: maxStopStrings })]).nullish(),
  stream: z.boolean().nullish(),
  /** Identifies the application's user. */
  user: z.string().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.literal(1, { error: 'only one answer per request is supported (n = 1)' }).nullish(),
  /** Extension: token ids in the report; whether the device's small model may continue the answer without a bridge. */
  brim: z.object({ token_ids: z.boolean().nullish(), fallback: z.enum(['none', 'slm']).nullish() }).nullish(),
}

const TextPart = z.object({ type: z.literal('text', { error: 'only text parts are supported' }), text: z.string() })

/** A message with its content as one text. */
const Message = z
  .looseObject({ role: z.string(), content: z.union([z.string(), listOf(TextPart)]).nullish() })
  .transform(({ content, ...message }): ChatMessage => {
    const text = Array.isArray(content) ? content.map((part) => part.text).join('\n') : (content ?? null)
    return { ...message, content: text }
  })

/** The body of POST /v1/chat/completions. */
export const ChatRequest = z.object({
  ...common,
  max_completion_tokens: z.int().min(1).nullish(),
  messages: listOf(Message, { min: 1 }),
})
export type ChatRequest = z.infer<typeof ChatRequest>

/** The body of POST /v1/completions. */
export const CompletionRequest = z.object({
  ...common,
  prompt: z.union([z.string(), listOf(z.int().min(0), { min: 1 })]),
})
export type CompletionRequest = z.infer<typeof CompletionRequest>

/** Fields that would change the answer and are not supported, with the values under which they change nothing. */
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

/** @throws FieldError REQUEST_INVALID naming the field */
export function parseRequest<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw invalidBody(parsed.error)
  for (const [field, harmless] of Object.entries(unsupported)) {
    const value = (body as Record<string, unknown>)[field]
    if (value == null || harmless.some((allowed) => JSON.stringify(allowed) === JSON.stringify(value))) continue
    throw new FieldError('REQUEST_INVALID', field, `"${field}" is not supported`, 'leave it out')
  }
  return parsed.data
}

/** Names the innermost field: in a union, the field of the member that matched best. */
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
