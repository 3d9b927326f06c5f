/** A message as in OpenAI's API; templates may read further fields (`tool_calls`, `name`). */
export interface ChatMessage {
  readonly role: string
  readonly content: string | null
  readonly [field: string]: unknown
}

interface ToolCall {
  readonly function: { readonly name: string; readonly arguments?: unknown }
  readonly [field: string]: unknown
}

/**
 * Messages as chat templates expect them, where OpenAI's API differs: arguments of tool calls are a mapping, not JSON; there is
 * no empty list of calls; a message without calls has a text. A template that ignores tool calls gets them as text.
 * @param readsToolCalls whether the template renders `tool_calls`
 */
export const forTemplate = (messages: readonly ChatMessage[], readsToolCalls: boolean): ChatMessage[] =>
  messages.map(({ tool_calls, ...message }) => {
    const calls = Array.isArray(tool_calls) ? tool_calls.filter(isToolCall).map(withParsedArguments) : []
    if (calls.length === 0) return { ...message, content: message.content ?? '' }
    // Many templates test for a call by its missing content.
    if (readsToolCalls) return { ...message, tool_calls: calls }
    return { ...message, content: [...(message.content ? [message.content] : []), ...calls.map(asText)].join('\n') }
  })

function isToolCall(call: unknown): call is ToolCall {
  const called = (call as { function?: { name?: unknown } } | null)?.function
  return typeof called === 'object' && called !== null && typeof called.name === 'string'
}

const withParsedArguments = (call: ToolCall): ToolCall => ({
  ...call,
  function: { ...call.function, arguments: parsed(call.function.arguments) },
})

/** Text that is no JSON stays text: models write such arguments, and clients send them back. */
function parsed(given: unknown): unknown {
  if (typeof given !== 'string') return given ?? {}
  try {
    return JSON.parse(given) as unknown
  } catch {
    return given
  }
}

const asText = ({ function: { name, arguments: args } }: ToolCall): string => JSON.stringify({ name, arguments: args })
