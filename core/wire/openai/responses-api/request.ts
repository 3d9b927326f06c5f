import { z } from 'zod'
import { listOf } from '../../../kit/base/list-of.ts'
import { commonFields } from '../request.ts'
import { JsonSchema } from '../structured.ts'
import { FunctionName, maxTools } from '../tools.ts'
import type { Unsupported } from '../unsupported.ts'
import { InputItem } from './input-items.ts'

const TextFormat = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({ type: z.literal('json_object') }),
  z.object({
    type: z.literal('json_schema'),
    name: z.string().max(256).nullish(),
    description: z.string().nullish(),
    schema: JsonSchema,
    strict: z.boolean().nullish(),
  }),
])

const Tool = z.object({
  type: z.literal('function', { error: 'only functions are supported' }),
  name: FunctionName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
})

const maxMetadata = 16
const Metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((metadata) => Object.keys(metadata).length <= maxMetadata, `must have at most ${maxMetadata} pairs`)

/** What chat requests name or place otherwise, or have alone. */
const {
  max_tokens: _,
  n: __,
  response_format: ___,
  stream_options: ____,
  return_token_ids: _____,
  return_tokens_as_token_ids: ______,
  ...sharedFields
} = commonFields

/** The body of POST /v1/responses. */
export const ResponsesRequest = z.object({
  ...sharedFields,
  input: z.union([z.string(), listOf(InputItem, { min: 1 })], { error: 'must be a text or a list of items' }),
  instructions: z.string().nullish(),
  previous_response_id: z.string().min(1).max(256).nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  text: z.object({ format: TextFormat.nullish() }).nullish(),
  tools: listOf(Tool, { max: maxTools }).nullish(),
  tool_choice: z
    .union([z.enum(['none', 'auto', 'required']), z.object({ type: z.literal('function'), name: FunctionName })], {
      error: 'must be "none", "auto", "required" or {"type": "function", "name": …}',
    })
    .nullish(),
  /** Default: true. */
  parallel_tool_calls: z.boolean().nullish(),
  /** `message.output_text.logprobs`; others have no effect. */
  include: listOf(z.string().max(64), { max: 16 }).nullish(),
  /** Likeliest tokens at each position. */
  top_logprobs: z.int().min(0).max(20).nullish(),
  metadata: Metadata.nullish(),
  /** Default: true. */
  store: z.boolean().nullish(),
})
export type ResponsesRequest = z.infer<typeof ResponsesRequest>

const conversation = 'send the whole conversation as "input", or "previous_response_id"'
const moved = (to: string) => ({ neutral: [], hint: `in this API it is "${to}"` })

/** Fields of OpenAI's API that would change the response, and that Brim does not support; and those of chat requests. */
export const unsupportedInResponses: Readonly<Record<string, Unsupported>> = {
  background: { neutral: [false], hint: 'wait for the response, or read it as a stream' },
  conversation: { neutral: [], hint: conversation },
  context_management: { neutral: [[]], hint: conversation },
  prompt: { neutral: [], hint: 'send the text as "instructions" and "input"' },
  truncation: { neutral: ['disabled'], hint: 'leave out the messages that the response does not need' },
  messages: moved('input'),
  max_tokens: moved('max_output_tokens'),
  max_completion_tokens: moved('max_output_tokens'),
  response_format: moved('text.format'),
  n: { neutral: [1], hint: 'send one request for each response' },
  best_of: { neutral: [1], hint: 'send one request for each response' },
  logit_bias: { neutral: [{}], hint: 'use text.format or structured_outputs' },
}
