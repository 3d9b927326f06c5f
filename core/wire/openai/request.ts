import { z } from 'zod'
import '../../kit/base/plain-messages.ts'
import { answerModes } from '../../kit/base/answer-modes.ts'
import { listOf } from '../../kit/base/list-of.ts'
import { ReaderRate } from '../../kit/base/reader-rates.ts'
import type { ChatMessage } from '../../model/text/chat-message.ts'
import { FieldError } from './api-error.ts'
import { GrammarField, structuredFields } from './structured.ts'
import { toolFields } from './tools.ts'
import { refuseUnsupported, type Unsupported, unsupportedFields } from './unsupported.ts'

/** Each token of the answer is compared with every stop string. OpenAI allows 4. */
const maxStopStrings = 64
const StopString = z.string().min(1).max(1_024)

const maxTopLogprobs = 20
const Penalty = z.number().min(-2).max(2)

/** Of all requests for answers. */
export const commonFields = {
  model: z.string().max(256).nullish(),
  max_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  /** Extension: only the k likeliest tokens. */
  top_k: z.int().min(0).nullish(),
  /** Extension: only tokens that are at least this many times as probable as the likeliest. */
  min_p: z.number().min(0).max(1).nullish(),
  presence_penalty: Penalty.nullish(),
  frequency_penalty: Penalty.nullish(),
  seed: z.int().nullish(),
  /** Extension, as in vLLM: the answer goes on after end-of-text tokens, for measurements of a fixed length. */
  ignore_eos: z.boolean().nullish(),
  /** Extension, as in vLLM: each event, and each choice of a whole response, has the ids of its tokens. */
  return_token_ids: z.boolean().nullish(),
  /** Extension, as in vLLM: log probabilities name tokens as `token_id:<id>`, because different ones may have the same text. */
  return_tokens_as_token_ids: z.boolean().nullish(),
  stop: z.union([StopString, listOf(StopString, { max: maxStopStrings })]).nullish(),
  ...structuredFields,
  stream: z.boolean().nullish(),
  /** Identifies the application's user. */
  user: z.string().max(1_024).nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  /** Answers to each prompt. */
  n: z.int().min(1).nullish(),
  /** Extensions. */
  brim: z
    .object({
      token_ids: z.boolean().nullish(),
      /** Whether the device's small model may continue the answer without a bridge. */
      fallback: z.enum(['none', 'slm']).nullish(),
      /** How fast the client reads; 0: it takes tokens as fast as they come. */
      tokens_per_s: ReaderRate.nullish(),
      /** How a bridge (PICE) or a device (DiSCo) may answer. */
      mode: z.enum(answerModes).nullish(),
      /** Whether no text may leave the device, in a mode that may ask a server. */
      private: z.boolean().nullish(),
      /** Whether the report says what each way of answering was expected to take. */
      explain: z.boolean().nullish(),
    })
    .nullish(),
}

const TextPart = z.object({ type: z.literal('text', { error: 'only text parts are supported' }), text: z.string() })

interface Called {
  readonly function?: { readonly name?: unknown } | null
}
/** Its other fields are the chat template's to read. */
const ToolCall = z.custom<object>((call) => typeof (call as Called | null)?.function?.name === 'string', {
  error: 'must be a call of a function with a name',
})

/** A message with its content as one text. */
const Message = z
  .looseObject({
    role: z.string(),
    content: z.union([z.string(), listOf(TextPart)]).nullish(),
    tool_calls: listOf(ToolCall).nullish(),
  })
  .transform(({ content, ...message }): ChatMessage => {
    const text = Array.isArray(content) ? content.map((part) => part.text).join('\n') : (content ?? null)
    // Newer clients' name of the same role, which chat templates do not know.
    const role = message.role === 'developer' ? 'system' : message.role
    return { ...message, role, content: text }
  })

/** The body of POST /v1/chat/completions. */
export const ChatRequest = z.object({
  ...commonFields,
  max_completion_tokens: z.int().min(1).nullish(),
  messages: listOf(Message, { min: 1 }),
  ...toolFields,
  logprobs: z.boolean().nullish(),
  /** Likeliest tokens at each position. */
  top_logprobs: z.int().min(0).max(maxTopLogprobs).nullish(),
  /** Extensions, as in vLLM: the last message is the beginning of the answer, which goes on after it. */
  continue_final_message: z.boolean().nullish(),
  add_generation_prompt: z.boolean().nullish(),
})
export type ChatRequest = z.infer<typeof ChatRequest>

const TokenIds = listOf(z.int().min(0), { min: 1 })

/** The body of POST /v1/completions. */
export const CompletionRequest = z.object({
  ...commonFields,
  /** One prompt or several, as text or as token ids. */
  prompt: z
    .union([z.string(), TokenIds, listOf(z.string(), { min: 1 }), listOf(TokenIds, { min: 1 })], {
      error: 'must be a text or a list of token ids, or a list of either',
    })
    .nullish(),
  /** Likeliest tokens at each position, beside the log probability of the chosen one. */
  logprobs: z.int().min(0).max(maxTopLogprobs).nullish(),
  brim: commonFields.brim
    .unwrap()
    .unwrap()
    .extend({
      /** In the place of `prompt`: its token ids, each in as many bits as the vocabulary needs, as base64. */
      prompt_ids: z.string().min(1).nullish(),
      /** How many ids at the end of the prompt are the beginning of the answer. */
      answered: z.int().min(1).nullish(),
      /** What the answer is kept to, as a device tells its bridge. */
      grammar: GrammarField.nullish(),
    })
    .nullish(),
})
export type CompletionRequest = z.infer<typeof CompletionRequest>

/** @param unsupported fields that are refused. @throws FieldError REQUEST_INVALID naming the field */
export function parseRequest<Schema extends z.ZodObject>(
  schema: Schema,
  body: unknown,
  unsupported: Readonly<Record<string, Unsupported>> = unsupportedFields,
): z.output<Schema> {
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw invalidBody(parsed.error)
  refuseUnsupported(body as Record<string, unknown>, unsupported)
  return parsed.data
}

/**
 * Fields of a valid body that have no effect: `store`, `brim.fallbak`. Those of messages may be read by the chat template.
 * @param max names; a body may have as many fields as its size allows
 * @param refused fields that are refused unless they change nothing
 */
export function ignoredFields(
  schema: z.ZodObject,
  body: unknown,
  max: number,
  refused: Readonly<Record<string, Unsupported>> = unsupportedFields,
): string[] {
  const found: string[] = []
  const search = ({ shape }: z.ZodObject, value: unknown, path: string): void => {
    for (const name in value as object) {
      if (found.length >= max) return
      const field = Object.hasOwn(shape, name) ? shape[name] : undefined
      const nested = field && objectIn(field)
      if (nested) search(nested, (value as Record<string, unknown>)[name], `${path}${name}.`)
      else if (!field && !(path === '' && Object.hasOwn(refused, name))) found.push(path + name)
    }
  }
  search(schema, body, '')
  return found
}

/** The object of an optional field. */
function objectIn(schema: z.core.$ZodType): z.ZodObject | undefined {
  if (schema instanceof z.ZodObject) return schema
  return schema instanceof z.ZodOptional || schema instanceof z.ZodNullable ? objectIn(schema.unwrap()) : undefined
}

/** Names the innermost field: in a union, the field of the member that matched furthest. */
function invalidBody(error: z.ZodError): FieldError {
  let [issue] = error.issues
  let path: PropertyKey[] = []
  while (issue) {
    path = [...path, ...issue.path]
    const inner: z.core.$ZodIssue[] = issue.code === 'invalid_union' ? issue.errors.flat() : []
    const [deepest] = inner.sort((a, b) => b.path.length - a.path.length || Number(b.path.at(-1)) - Number(a.path.at(-1)))
    if (!deepest || deepest.path.length === 0) break
    issue = deepest
  }
  const param = path.map(String).join('.')
  const what = param === '' ? 'the body' : `"${param}"`
  return new FieldError('REQUEST_INVALID', param, `${what}: ${issue?.message ?? 'invalid'}`)
}
