import { BrimError } from '../../kit/base/errors.ts'
import type { ChatMessage } from './chat-message.ts'
import type { ChatTemplate } from './chat-template.ts'
import type { TextTokenizer } from './tokenizer.ts'

/** A prompt as text: a conversation for the model's chat template, or a text without one. */
export type PromptText =
  /** `tools`: functions that the answer may call, as in OpenAI's API. */
  | { readonly kind: 'chat'; readonly messages: readonly ChatMessage[]; readonly tools?: readonly object[] }
  /** `continues`: the text continues another one, so it gets no special tokens. */
  | { readonly kind: 'text'; readonly text: string; readonly continues?: boolean }

/** How one model reads a prompt. */
export interface PromptReader {
  readonly name: string
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** Of the model, in tokens. */
  readonly contextLimit: number
}

/** @throws BrimError CHAT_TEMPLATE_INVALID, REQUEST_INVALID (the template rejects the conversation) */
export function renderPrompt(
  prompt: PromptText,
  { name, chatTemplate }: Omit<PromptReader, 'tokenizer' | 'contextLimit'>,
): string {
  if (prompt.kind === 'text') return prompt.text
  if (chatTemplate) return chatTemplate.render(prompt.messages, prompt.tools && { tools: prompt.tools })
  throw new BrimError('CHAT_TEMPLATE_INVALID', `the model ${name} has no chat template`, {
    hint: 'send a plain prompt instead of messages',
  })
}

/**
 * A prompt that is longer than the longest tokens could cover is refused before it is tokenised, which takes up to 10 µs a character.
 * @throws BrimError CONTEXT_OVERFLOW, and as `renderPrompt`
 */
export function encodePrompt(prompt: PromptText, reader: PromptReader): number[] {
  const text = renderPrompt(prompt, reader)
  requireFits(text, reader)
  // A template has written the special tokens itself.
  const addSpecialTokens = prompt.kind === 'text' && prompt.continues !== true
  return reader.tokenizer.encode(text, { addSpecialTokens })
}

/** @throws BrimError CONTEXT_OVERFLOW */
export function requireFits(text: string, { tokenizer, contextLimit }: Omit<PromptReader, 'name' | 'chatTemplate'>): void {
  const bytes = Buffer.byteLength(text)
  const minTokens = Math.ceil(bytes / tokenizer.maxTokenBytes)
  if (minTokens <= contextLimit) return
  throw new BrimError(
    'CONTEXT_OVERFLOW',
    `the prompt (${bytes} bytes) has at least ${minTokens} tokens; the model's context is ${contextLimit} tokens`,
    { hint: 'shorten the prompt' },
  )
}
