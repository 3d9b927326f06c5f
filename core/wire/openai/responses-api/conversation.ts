import type { ChatMessage } from '../../../model/text/chat-message.ts'
import { FieldError } from '../api-error.ts'
import { type InputItem, joinedText } from './input-items.ts'

type Item = Exclude<InputItem, { type: 'item_reference' }>

/**
 * Items as the messages of a conversation that chat templates read: consecutive calls are calls of one message, and reasoning
 * belongs to the message that follows it.
 * @param before the messages before the items
 * @throws FieldError REQUEST_INVALID for the result of a function that nothing has called
 */
export function withItems(before: readonly ChatMessage[], items: readonly Item[]): readonly ChatMessage[] {
  const messages = [...before]
  const called = new Set(before.flatMap(callIdsOf))
  let reasoning = ''
  const add = (message: ChatMessage) => {
    messages.push({ ...message, ...(reasoning !== '' && message.role === 'assistant' && { reasoning_content: reasoning }) })
    reasoning = ''
  }
  for (const [at, item] of items.entries())
    switch (item.type) {
      case 'message':
        // Chat templates do not know the newer name of this role.
        add({ role: item.role === 'developer' ? 'system' : item.role, content: joinedText(item.content) })
        break
      case 'function_call': {
        called.add(item.call_id)
        const call = { id: item.call_id, type: 'function', function: { name: item.name, arguments: item.arguments } }
        const last = messages.at(-1)
        if (last?.role === 'assistant' && reasoning === '')
          messages[messages.length - 1] = { ...last, tool_calls: [...callsOf(last), call] }
        else add({ role: 'assistant', content: null, tool_calls: [call] })
        break
      }
      case 'function_call_output':
        if (!called.has(item.call_id)) throw withoutCall(at, item.call_id)
        add({ role: 'tool', tool_call_id: item.call_id, content: joinedText(item.output) })
        break
      case 'reasoning':
        reasoning += joinedText(item.content ?? item.summary ?? [])
        break
      default:
        item satisfies never
    }
  return messages
}

/** Instructions stand first, in one message with those of the conversation: many templates take no second one. */
export function withInstructions(instructions: string, messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const [first, ...others] = messages
  if (first?.role !== 'system') return [{ role: 'system', content: instructions }, ...messages]
  return [{ ...first, content: `${instructions}\n\n${first.content}` }, ...others]
}

const callsOf = ({ tool_calls }: ChatMessage): readonly object[] => (Array.isArray(tool_calls) ? tool_calls : [])
const callIdsOf = (message: ChatMessage) => callsOf(message).map((call) => (call as { id: string }).id)

const withoutCall = (at: number, id: string) =>
  new FieldError(
    'REQUEST_INVALID',
    `input.${at}.call_id`,
    `no function call with the call_id "${id}" comes before its output`,
    'send the function_call before it, or the previous_response_id of the response that called the function',
  )
