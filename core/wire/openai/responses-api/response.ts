import { z } from 'zod'
import { ErrorDetail } from '../api-error.ts'

const status = z.enum(['in_progress', 'completed', 'incomplete'])
const id = z.string()

const OutputText = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.looseObject({})).describe('Always empty.'),
  logprobs: z.array(z.looseObject({})),
})
const ReasoningText = z.object({ type: z.literal('reasoning_text'), text: z.string() })

export const OutputItem = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message'), id, status, role: z.literal('assistant'), content: z.array(OutputText) }),
  z.object({ type: z.literal('function_call'), id, status, call_id: z.string(), name: z.string(), arguments: z.string() }),
  z.object({
    type: z.literal('reasoning'),
    id,
    status,
    summary: z.array(z.looseObject({ text: z.string() })).describe('Always empty.'),
    content: z.array(ReasoningText),
  }),
])
export type OutputItem = z.infer<typeof OutputItem>
export type OutputPart = z.infer<typeof OutputText> | z.infer<typeof ReasoningText>

const ResponsesUsage = z.object({
  input_tokens: z.int(),
  input_tokens_details: z.object({ cached_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
})

export const ResponseObject = z.object({
  id,
  object: z.literal('response'),
  created_at: z.int().describe('Unix seconds.'),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
  model: z.string(),
  output: z.array(OutputItem),
  usage: ResponsesUsage.nullable(),
  error: ErrorDetail.nullable(),
  incomplete_details: z.object({ reason: z.literal('max_output_tokens') }).nullable(),
  // As in the request, with its defaults.
  instructions: z.string().nullable(),
  previous_response_id: z.string().nullable(),
  max_output_tokens: z.int().nullable(),
  temperature: z.number(),
  top_p: z.number(),
  top_logprobs: z.int(),
  text: z.object({ format: z.looseObject({ type: z.string() }) }),
  tools: z.array(z.looseObject({ type: z.literal('function'), name: z.string() })),
  tool_choice: z.union([z.string(), z.looseObject({})]),
  parallel_tool_calls: z.boolean(),
  metadata: z.record(z.string(), z.string()),
  store: z.boolean(),
  background: z.literal(false),
  truncation: z.literal('disabled'),
  brim: z.looseObject({}).optional().describe('How the response was made.'),
})
export type ResponseObject = z.infer<typeof ResponseObject>

/** Fields of a response that repeat its request. */
export type ResponseEcho = Omit<
  ResponseObject,
  'id' | 'object' | 'created_at' | 'status' | 'model' | 'output' | 'usage' | 'error' | 'incomplete_details' | 'brim'
>

export const DeletedResponse = z.object({ id, object: z.literal('response'), deleted: z.literal(true) })

export const ResponseEvent = z.looseObject({
  type: z.string(),
  sequence_number: z.int().describe('From 0, without gaps.'),
  response: ResponseObject.optional(),
  output_index: z.int().optional(),
  item_id: z.string().optional(),
  content_index: z.int().optional(),
  item: OutputItem.optional(),
  delta: z.string().optional(),
})
