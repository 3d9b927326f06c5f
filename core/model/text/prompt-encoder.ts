import { encodePrompt, type PromptReader, type PromptText, renderPrompt, requireFits } from './prompt-text.ts'
import { PromptThread } from './prompt-thread.ts'

/** Tokenises prompts without blocking the event loop. Clients take turns: `user` is one as `clientOf` reads it. */
export interface PromptEncoder {
  /** @throws BrimError CONTEXT_OVERFLOW, CHAT_TEMPLATE_INVALID, REQUEST_INVALID (the template rejects it), CANCELED, OUT_OF_MEMORY */
  encode(prompt: PromptText, user: string, signal: AbortSignal): Promise<readonly number[]>
  /** Checks that the chat template accepts the prompt. @throws BrimError as `encode`, except CONTEXT_OVERFLOW */
  check(prompt: PromptText, user: string, signal: AbortSignal): Promise<void>
}

/** Length of a prompt, in UTF-16 units, that is tokenised on the event loop: it takes less than 50 ms in the worst case. */
const inlineLength = 4_096
/** A short message costs its template as much as this length of text costs the tokenizer. */
const messageLength = 64

/** @param folder of the tokenizer, from which a thread loads it again for long prompts; absent: there is no thread */
export function createPromptEncoder(reader: PromptReader, folder?: string): PromptEncoder {
  const { name, contextLimit } = reader
  const thread = folder === undefined ? undefined : new PromptThread({ name, folder, contextLimit })
  return {
    async encode(prompt, user, signal) {
      if (prompt.kind === 'text') requireFits(prompt.text, reader)
      if (!thread || isShort(prompt)) return encodePrompt(prompt, reader)
      return thread.run({ kind: 'encode', prompt: JSON.stringify(prompt) }, user, signal)
    },
    async check(prompt, user, signal) {
      if (!thread || isShort(prompt)) renderPrompt(prompt, reader)
      else await thread.run({ kind: 'render', prompt: JSON.stringify(prompt) }, user, signal)
    },
  }
}

function isShort(prompt: PromptText): boolean {
  if (prompt.kind === 'text') return prompt.text.length <= inlineLength
  let length = 0
  for (const message of [...prompt.messages, ...(prompt.tools ?? [])]) {
    length += messageLength + JSON.stringify(message).length
    if (length > inlineLength) return false
  }
  return true
}
