import { BrimError } from '../../core/base/errors.ts'
import type { ChatMessage } from '../../core/text/chat-template.ts'
import { sharesTokens, type TextModel, type Tokens } from './text-model.ts'

type PromptContent =
  | { readonly kind: 'chat'; readonly messages: readonly ChatMessage[] }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'ids'; readonly tokens: Tokens }

/** A prompt that any model can read. Each model's tokens are computed once, when they are first needed. */
export class Prompt {
  readonly #content: PromptContent
  readonly #ids = new Map<TextModel, readonly number[]>()

  constructor(content: PromptContent) {
    this.#content = content
  }

  /** @throws BrimError CHAT_TEMPLATE_INVALID, REQUEST_INVALID (the template rejects the conversation) */
  idsFor(model: TextModel): readonly number[] {
    const known = this.#ids.get(model)
    if (known) return known
    const ids = this.#encode(model)
    this.#ids.set(model, ids)
    return ids
  }

  /** Checks that the model can read the prompt, without tokenising it. @throws BrimError as `idsFor` */
  check(model: TextModel): void {
    if (this.#content.kind === 'chat') render(this.#content.messages, model)
  }

  #encode(model: TextModel): readonly number[] {
    const content = this.#content
    switch (content.kind) {
      case 'chat':
        // The template has written the special tokens itself.
        return model.tokenizer.encode(render(content.messages, model), { addSpecialTokens: false })
      case 'text':
        return model.tokenizer.encode(content.text)
      case 'ids': {
        const { ids, model: source } = content.tokens
        if (sharesTokens(model, source)) return ids
        // Special tokens differ between vocabularies: the model's own tokenizer adds its own.
        return model.tokenizer.encode(source.tokenizer.decode(ids, { skipSpecialTokens: true }))
      }
      default:
        return content satisfies never
    }
  }
}

function render(messages: readonly ChatMessage[], { name, chatTemplate }: TextModel): string {
  if (chatTemplate) return chatTemplate.render(messages)
  throw new BrimError('CHAT_TEMPLATE_INVALID', `the model ${name} has no chat template`, {
    hint: 'send a plain prompt instead of messages',
  })
}
