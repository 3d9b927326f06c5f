import { z } from 'zod'
import { listOf } from '../../../kit/base/list-of.ts'

const textOnly = { error: 'only text parts are supported' }

const TextPart = z.object({ type: z.enum(['input_text', 'output_text'], textOnly), text: z.string() })
const RefusalPart = z.object({ type: z.literal('refusal'), refusal: z.string() })
const MessagePart = z.discriminatedUnion('type', [TextPart, RefusalPart], textOnly)

const CallId = z.string().min(1).max(256)

const TypedItem = z.discriminatedUnion(
  'type',
  [
    z.object({
      type: z.literal('message'),
      role: z.enum(['user', 'assistant', 'system', 'developer']),
      content: z.union([z.string(), listOf(MessagePart)]),
    }),
    z.object({ type: z.literal('function_call'), call_id: CallId, name: z.string().min(1), arguments: z.string() }),
    z.object({
      type: z.literal('function_call_output'),
      call_id: CallId,
      output: z.union([z.string(), listOf(TextPart)]),
    }),
    z.object({
      type: z.literal('reasoning'),
      summary: listOf(z.object({ text: z.string() })).nullish(),
      content: listOf(z.object({ text: z.string() })).nullish(),
    }),
    z.object({ type: z.literal('item_reference'), id: z.string().min(1) }),
  ],
  { error: 'must be message, function_call, function_call_output, reasoning or item_reference' },
)

/** Messages may leave out their type. */
export const InputItem = z.preprocess((item) => {
  if (typeof item !== 'object' || item === null || 'type' in item || !('role' in item)) return item
  return { ...item, type: 'message' }
}, TypedItem)
export type InputItem = z.infer<typeof TypedItem>

/** Text of a message, of reasoning or of a function's result. */
export const joinedText = (content: string | readonly ({ readonly text: string } | { readonly refusal: string })[]): string =>
  typeof content === 'string' ? content : content.map((part) => ('text' in part ? part.text : part.refusal)).join('\n')
