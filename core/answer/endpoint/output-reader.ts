import { ReasoningReader } from '../../model/text/reasoning-reader.ts'
import { hermes } from '../../model/text/tool-format.ts'
import { type CallPiece, ToolReader } from '../../model/text/tool-reader.ts'
import type { AnswerDelta, AnswerRequest } from './endpoint.ts'

/** New output of an answer. */
export interface Output {
  /** Outside of reasoning and calls. */
  readonly text: string
  /** Absent: none. */
  readonly reasoning?: string
  readonly calls?: readonly CallPiece[]
}

/** Tells reasoning, text and calls of functions apart, by the chat template of the model that begins the answer. */
export class OutputReader {
  readonly #request: AnswerRequest
  #reasoning: ReasoningReader | undefined
  #tools: ToolReader | undefined
  #hasBegun = false

  constructor(request: AnswerRequest) {
    this.#request = request
  }

  get calls(): number {
    return this.#tools?.calls ?? 0
  }

  /** @param text of the delta @param isLast nothing follows */
  push(delta: AnswerDelta, text: string, isLast: boolean): Output {
    if (!this.#hasBegun) this.#begin(delta)
    const { reasoning, text: spoken } = this.#reasoning?.push(text, isLast) ?? { reasoning: '', text }
    const read = this.#tools?.push(spoken, isLast) ?? { text: spoken, calls: [] }
    return { text: read.text, ...(reasoning && { reasoning }), ...(read.calls.length > 0 && { calls: read.calls }) }
  }

  /** The text of another server has calls in the form of `hermes`: its reader writes them so. */
  #begin(delta: AnswerDelta): void {
    this.#hasBegun = true
    const { prompt, answered, grammar, tools } = this.#request
    const template = 'text' in delta ? undefined : delta.source.model.chatTemplate
    const mayReason = prompt.isConversation && !answered && !grammar && !tools?.mustCall
    if (template?.reasoning && mayReason) this.#reasoning = new ReasoningReader(template.reasoning)
    if (tools)
      this.#tools = new ToolReader(
        template?.tools ?? hermes,
        tools.tools.map(({ name }) => name),
      )
  }
}
