import type { Prompt } from '../../core/answer/endpoint/prompt.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import { SketchInput } from '../../core/wire/protocol/jobs.ts'

export type SketchMessages = NonNullable<SketchInput['messages']>

const Messages = SketchInput.shape.messages.unwrap()

/** The conversation of a prompt. @throws Error for a prompt without one: the API sends only conversations here */
export function messagesOf(prompt: Prompt): readonly ChatMessage[] {
  const content = prompt.asText()
  if (content.kind === 'chat') return content.messages
  throw new Error('only conversations are sketched')
}

/**
 * The conversation as a job carries it; undefined where it cannot: calls of tools, too much text for a small model.
 * @param maxBytes of the messages as JSON
 */
export function sketchMessages(messages: readonly ChatMessage[], maxBytes: number): SketchMessages | undefined {
  const { data } = Messages.safeParse(messages)
  return data && Buffer.byteLength(JSON.stringify(data)) <= maxBytes ? data : undefined
}
