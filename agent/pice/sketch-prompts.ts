import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import {
  expandInstruction,
  expandNextInstruction,
  type LineToExpand,
  type PicePrompts,
  withInstruction,
} from '../../core/answer/sketch/prompts.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import { jobClient } from '../jobs/generate.ts'
import type { GroupWork, SketchWork } from './expansion-work.ts'

/** An expansion is not begun with room for fewer tokens. */
const minAnswerTokens = 16

type Chat = readonly ChatMessage[]

/** A conversation whose next message expands a line. */
export interface LinePrompt {
  readonly chat: Chat
  readonly ids: readonly number[]
  /** Room for the expansion. */
  readonly maxTokens: number
}

/** The tokens with which the prompts of several groups begin. */
export interface SharedPrefix {
  readonly ids: readonly number[]
  readonly groups: number
}

/** The prompts of one sketch's groups, in tokens of one model. */
export class SketchPrompts {
  readonly #model: TextModel
  readonly #prompts: PicePrompts
  readonly #work: SketchWork
  readonly #signal: AbortSignal
  #first: Promise<ReadonlyMap<GroupWork, LinePrompt & { readonly shared: SharedPrefix | undefined }>> | undefined

  constructor(model: TextModel, prompts: PicePrompts, work: SketchWork, signal: AbortSignal) {
    this.#model = model
    this.#prompts = prompts
    this.#work = work
    this.#signal = signal
  }

  /**
   * The prompt of a group's first line. A sketch that is too long for the model's context is shown in parts.
   * @throws BrimError CONTEXT_OVERFLOW if the query leaves no room for a line; CHAT_TEMPLATE_INVALID, REQUEST_INVALID, CANCELED
   */
  async first(group: GroupWork): Promise<LinePrompt & { readonly shared: SharedPrefix | undefined }> {
    this.#first ??= this.#firstOfAll()
    return (await this.#first).get(group)!
  }

  /** Of the longest prompt of a first line, with its expansion. @throws BrimError as `first` */
  async positions(): Promise<number> {
    this.#first ??= this.#firstOfAll()
    return Math.max(...[...(await this.#first).values()].map(({ ids, maxTokens }) => ids.length + maxTokens))
  }

  /** The prompt of another line in the same conversation; undefined: the context has no room for it. */
  next({ chat }: LinePrompt, reply: string, sentence: number): Promise<LinePrompt | undefined> {
    const content = expandNextInstruction(this.#prompts, lineOf(this.#work, sentence))
    return this.#fitting([...chat, { role: 'assistant', content: reply }, { role: 'user', content }], sentence)
  }

  /** The prompt of a line in a conversation of its own. @throws BrimError as `first` */
  async alone(sentence: number): Promise<LinePrompt> {
    const chat = this.#chat(sentence, sentence, sentence + 1)
    const { contextLimit } = this.#model.dims
    const ids = (await this.#encode(chat)) ?? []
    const maxTokens = Math.min(this.#work.lengths[sentence]!.max, contextLimit - ids.length)
    if (ids.length > 0 && maxTokens >= minAnswerTokens) return { chat, ids, maxTokens }
    throw new BrimError(
      'CONTEXT_OVERFLOW',
      `the query with one line of its sketch leaves no room for ${minAnswerTokens} tokens in the context of ${this.#model.name} (${contextLimit} tokens)`,
      { hint: 'use a small model with a longer context' },
    )
  }

  async #firstOfAll() {
    const { lines, groups } = this.#work
    const started = new Map<number, LinePrompt>()
    /** Tries to show the lines [from, to) with each of these sentences, else halves of them. */
    const start = async (sentences: readonly number[], from: number, to: number): Promise<readonly number[][]> => {
      if (sentences.length === 0) return []
      if (to - from === 1) {
        for (const sentence of sentences) started.set(sentence, await this.alone(sentence))
        return [[...sentences]]
      }
      const prompts: LinePrompt[] = []
      for (const sentence of sentences) {
        const prompt = await this.#fitting(this.#chat(sentence, from, to), sentence)
        if (!prompt) break
        prompts.push(prompt)
      }
      if (prompts.length === sentences.length) {
        sentences.forEach((sentence, at) => void started.set(sentence, prompts[at]!))
        return [[...sentences]]
      }
      const middle = Math.ceil((from + to) / 2)
      const before = await start(
        sentences.filter((at) => at < middle),
        from,
        middle,
      )
      return [
        ...before,
        ...(await start(
          sentences.filter((at) => at >= middle),
          middle,
          to,
        )),
      ]
    }
    const sentences = [...new Set(groups.map(({ sentences: [first] }) => first!))]
    const parts = await start(sentences, 0, lines.length)
    return new Map(
      parts.flatMap((part) => {
        const members = groups.filter(({ sentences: [first] }) => part.includes(first!))
        const prompts = members.map(({ sentences: [first] }) => started.get(first!)!)
        const ids = commonPrefix(prompts.map((prompt) => prompt.ids))
        const shared = members.length > 1 && ids.length > 0 ? { ids, groups: members.length } : undefined
        return members.map((group, at) => [group, { ...prompts[at]!, shared }] as const)
      }),
    )
  }

  #chat(sentence: number, from: number, to: number): Chat {
    const { query, lines } = this.#work
    return withInstruction(query, expandInstruction(this.#prompts, lines.slice(from, to), lineOf(this.#work, sentence)))
  }

  async #fitting(chat: Chat, sentence: number): Promise<LinePrompt | undefined> {
    const ids = await this.#encode(chat)
    const { min, max } = this.#work.lengths[sentence]!
    const room = this.#model.dims.contextLimit - (ids?.length ?? 0)
    return ids && room >= min ? { chat, ids, maxTokens: Math.min(room, max) } : undefined
  }

  /** Undefined: longer than the model's context. */
  async #encode(chat: Chat): Promise<readonly number[] | undefined> {
    const { chatTemplate, prompts } = this.#model
    const prompt = chatTemplate
      ? ({ kind: 'chat', messages: chat } as const)
      : ({ kind: 'text', text: `${chat.map(({ content }) => content).join('\n\n')}\n\n` } as const)
    try {
      return await prompts.encode(prompt, jobClient, this.#signal)
    } catch (error) {
      if (error instanceof BrimError && error.code === 'CONTEXT_OVERFLOW') return undefined
      throw error
    }
  }
}

export const lineOf = ({ lines, lengths }: SketchWork, at: number): LineToExpand => ({
  line: lines[at]!,
  at,
  count: lines.length,
  tokens: lengths[at]!.expected,
})

/** All but the last token of the shortest may be shared: each sequence computes at least one. */
function commonPrefix(prompts: readonly (readonly number[])[]): readonly number[] {
  const [first = [], ...others] = prompts
  const length = others.reduce((shared, other) => Math.min(shared, commonLength(first, other)), first.length)
  return first.slice(0, Math.min(length, ...prompts.map((ids) => ids.length - 1)))
}

/** Tokens with which both begin. */
export function commonLength(a: readonly number[], b: readonly number[]): number {
  const differs = a.findIndex((id, at) => id !== b[at])
  return differs < 0 ? a.length : differs
}
