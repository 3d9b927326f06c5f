import { AnswerText } from '../../core/answer/endpoint/answer-text.ts'
import type { AnswerRequest, Endpoint, TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { inTokensOf, type RemoteModel } from '../../core/answer/endpoint/text-model.ts'
import { type PicePrompts, withInstruction } from '../../core/answer/sketch/prompts.ts'
import { readerRates } from '../../core/kit/base/reader-rates.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import type { AnswerLog, ResumableEndpoint } from '../llm/journalled-endpoint.ts'

/** A request, and its conversation. */
export interface Asked {
  readonly request: AnswerRequest
  readonly messages: readonly ChatMessage[]
}

/** The bridge's LLM as PICE uses it: by text, whichever way the model runs. */
export class Llm {
  readonly prompts: PicePrompts
  readonly model: RemoteModel
  /** How its text is named as a source. */
  readonly kind: 'bridge' | 'upstream'
  readonly #endpoint: Endpoint & Partial<Pick<ResumableEndpoint, 'logged'>>

  constructor(endpoint: Endpoint & Partial<Pick<ResumableEndpoint, 'logged'>>, prompts: PicePrompts) {
    this.#endpoint = endpoint
    this.prompts = prompts
    this.model = { name: endpoint.model.name }
    this.kind = endpoint.model.tokenizer ? 'bridge' : 'upstream'
  }

  /** Whether a full answer that was interrupted goes on from a log. */
  get isResumable(): boolean {
    return this.#endpoint.logged !== undefined
  }

  /** Whether it goes on after the beginning of an answer, where that is no reasoning. */
  get continues(): boolean {
    const { model, continues = false } = this.#endpoint
    return model.tokenizer ? model.chatTemplate?.reasoning === undefined : continues
  }

  /**
   * Its full answer to a request, or the rest of it. Stop strings are left to the reader of the text.
   * @param log of its tokens, if it is resumable
   */
  answer({ request }: Asked, log: AnswerLog, signal: AbortSignal): AsyncGenerator<TextDelta, void> {
    return this.#textOf(this.#endpoint.logged?.(log) ?? this.#endpoint, request, signal)
  }

  /** What it replies to an instruction about the answer, as fast as it can: it is not paced to a reader. */
  reply(
    { request, messages }: Asked,
    instruction: string,
    { sampling = request.sampling, maxTokens }: { readonly sampling?: AnswerRequest['sampling']; readonly maxTokens: number },
    signal: AbortSignal,
  ): AsyncGenerator<TextDelta, void> {
    const prompt = new Prompt({ kind: 'chat', messages: withInstruction(messages, instruction) })
    const asked = { prompt, sampling, maxTokens, stop: [], client: request.client, tokensPerS: readerRates.max }
    return this.#textOf(this.#endpoint, asked, signal)
  }

  /** Tokens of a text; undefined where the model runs on another server. */
  countTokens(text: string): number | undefined {
    return this.#endpoint.model.tokenizer?.encode(text, { addSpecialTokens: false }).length
  }

  /** Tokens of the request's prompt, where the model runs here. */
  async promptTokens({ request }: Asked, signal: AbortSignal): Promise<Pick<TextDelta, 'promptTokens'>> {
    const { model } = this.#endpoint
    return model.tokenizer ? { promptTokens: (await request.prompt.idsFor(model, request.client, signal)).length } : {}
  }

  async *#textOf(endpoint: Endpoint, request: AnswerRequest, signal: AbortSignal): AsyncGenerator<TextDelta, void> {
    const source = { kind: this.kind, model: this.model }
    const { model } = endpoint
    const { answered = { text: '' } } = request
    const answer = new AnswerText(model.tokenizer ? { model, ids: inTokensOf(model, answered) } : answered, [])
    for await (const delta of endpoint.answer(request, signal)) {
      const { text, tokens, end } = answer.push(delta)
      const promptTokens = 'text' in delta ? delta.promptTokens : undefined
      yield { source, text, tokenCount: tokens, end, ...(promptTokens !== undefined && { promptTokens }) }
    }
  }
}
