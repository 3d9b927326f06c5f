import { z } from 'zod'
import { listOf } from '../../kit/base/list-of.ts'

export const maxTools = 256

export const FunctionName = z.string().regex(/^[\w.-]{1,64}$/, 'must be 1 to 64 letters, digits, "_", "-" or "."')

const Tool = z.object({
  type: z.literal('function', { error: 'only functions are supported' }),
  function: z.object({
    name: FunctionName,
    description: z.string().nullish(),
    /** JSON schema of an object. */
    parameters: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
  }),
})

/** Fields of a chat request about functions that its answer may call. */
export const toolFields = {
  tools: listOf(Tool, { max: maxTools }).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['none', 'auto', 'required']),
        z.object({ type: z.literal('function'), function: z.object({ name: FunctionName }) }),
      ],
      {
        error: 'must be "none", "auto", "required" or {"type": "function", "function": {"name": …}}',
      },
    )
    .nullish(),
  /** Default: true. */
  parallel_tool_calls: z.boolean().nullish(),
}
export type ToolRequest = z.infer<z.ZodObject<typeof toolFields>>
