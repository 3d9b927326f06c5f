import type { PromptText } from '../../model/text/prompt-text.ts'
import { sharesTokens, type TextModel, type Tokens } from './text-model.ts'

type PromptContent = PromptText | { readonly kind: 'ids'; readonly tokens: Tokens }

/** A prompt that any model can read. Each model's tokens are computed once, when they are first needed. */
export class Prompt {
  readonly #content: PromptContent
  readonly #ids = new Map<TextModel, Promise<readonly number[]>>()

  constructor(content: PromptContent) {
    this.#content = content
  }

  /** Whether it has messages, rather than a text or token ids. */
  get isConversation(): boolean {
    return this.#content.kind === 'chat'
  }

  /** Whether it was given as token ids. */
  get isTokens(): boolean {
    return this.#content.kind === 'ids'
  }

  /** @param client that waits for them. @throws BrimError CONTEXT_OVERFLOW, CHAT_TEMPLATE_INVALID, REQUEST_INVALID (the template rejects the conversation), CANCELED */
  idsFor(model: TextModel, client: string, signal: AbortSignal): Promise<readonly number[]> {
    const known = this.#ids.get(model) ?? this.#encode(model, client, signal)
    this.#ids.set(model, known)
    return known
  }

  /** For a model with other tokens. Special tokens are left out: they differ between vocabularies, and tokenizers add their own. */
  asText(): PromptText {
    const content = this.#content
    if (content.kind !== 'ids') return content
    const { ids, model } = content.tokens
    return { kind: 'text', text: model.tokenizer.decode(ids, { skipSpecialTokens: true }) }
  }

  /** Checks that the model can read the prompt, without tokenising it. @throws BrimError as `idsFor` */
  async check(model: TextModel, client: string, signal: AbortSignal): Promise<void> {
    if (this.#content.kind === 'chat') await model.prompts.check(this.#content, client, signal)
  }

  async #encode(model: TextModel, client: string, signal: AbortSignal): Promise<readonly number[]> {
    const content = this.#content
    if (content.kind !== 'ids') return model.prompts.encode(content, client, signal)
    const { ids, model: source } = content.tokens
    return sharesTokens(model, source) ? ids : model.prompts.encode(this.asText(), client, signal)
  }
}
