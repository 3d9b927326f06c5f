import { createHash } from 'node:crypto'
import type { CallPiece } from '../../../model/text/tool-reader.ts'
import { callId, type ResponseHead, type ResponsePiece, scoredToken } from '../response-formats.ts'
import type { OutputItem, OutputPart } from './response.ts'

type Kind = OutputItem['type']
type Status = OutputItem['status']

/** An item that is being written. */
interface Open {
  readonly kind: Kind
  readonly id: string
  /** Of a call: its arguments. */
  text: string
  /** Of a message. */
  readonly logprobs: object[]
  /** Of a call. */
  readonly call: number
  readonly name: string
}

/** An event without its place in the stream. */
export interface OutputEvent {
  readonly type: string
  readonly [field: string]: unknown
}

const idPrefixes = { message: 'msg', function_call: 'fc', reasoning: 'rs' } as const
const deltaTypes = {
  message: 'response.output_text',
  function_call: 'response.function_call_arguments',
  reasoning: 'response.reasoning_text',
} as const

/** The output of one response: pieces become items, one after the other, and the events that tell of them. */
export class ResponseOutput {
  readonly #head: ResponseHead
  readonly #items: OutputItem[] = []
  #open: Open | undefined
  /** Of tokens whose text comes later. */
  #logprobs: object[] = []
  /** Up to the last piece that had an output. */
  #tokens = 0
  #reasoningTokens = 0

  constructor(head: ResponseHead) {
    this.#head = head
  }

  /** Complete items. */
  get items(): readonly OutputItem[] {
    return this.#items
  }

  /** Tokens of pieces that are nothing but reasoning. */
  get reasoningTokens(): number {
    return this.#reasoningTokens
  }

  push({ text, reasoning = '', calls = [], logprobs = [], tokens, sketch }: ResponsePiece): readonly OutputEvent[] {
    const isOther = text !== '' || calls.length > 0
    if (reasoning !== '' && !isOther) this.#reasoningTokens += tokens - this.#tokens
    if (reasoning !== '' || isOther) this.#tokens = tokens
    if (reasoning === '' && calls.length === 0) this.#logprobs.push(...logprobs.map(scoredToken))
    const isRest = ({ index, name }: CallPiece) => name === undefined && index === this.#open?.call
    const rest = calls.filter(isRest)
    const begun = calls.filter((call) => !rest.includes(call))
    const events = rest.map(({ arguments: part }) => this.#delta(part))
    if (reasoning !== '') events.push(...this.#add('reasoning', reasoning))
    if (text !== '' || sketch) events.push(...this.#add('message', text, sketch && { brim: { sketch } }))
    for (const { index, name, arguments: part } of begun) {
      if (name !== undefined) events.push(...this.#begin('function_call', index, name))
      if (part !== '') events.push(this.#delta(part))
    }
    return events
  }

  /** @param status of the item that is being written. A response without output has an empty message. */
  end(status: Status): readonly OutputEvent[] {
    const events = this.#open || this.#items.length > 0 ? [] : this.#begin('message')
    return [...events, ...this.#close(status)]
  }

  #add(kind: Kind, text: string, extension: object = {}): OutputEvent[] {
    const events = this.#open?.kind === kind ? [] : this.#begin(kind)
    return [...events, { ...this.#delta(text), ...extension }]
  }

  #delta(delta: string): OutputEvent {
    const open = this.#open!
    open.text += delta
    const logprobs = open.kind === 'message' ? this.#logprobs.splice(0) : []
    open.logprobs.push(...logprobs)
    return { type: `${deltaTypes[open.kind]}.delta`, ...this.#place(open), delta, ...(open.kind === 'message' && { logprobs }) }
  }

  #begin(kind: Kind, call = -1, name = ''): OutputEvent[] {
    const closed = this.#close('completed')
    const at = this.#items.length
    const id = `${idPrefixes[kind]}_${createHash('sha256').update(`${this.#head.id}/${at}`).digest('hex').slice(0, 32)}`
    const open: Open = { kind, id, text: '', logprobs: [], call, name }
    this.#open = open
    const item = { ...this.#itemOf(open, 'in_progress'), ...(kind !== 'function_call' && { content: [] }) }
    const added = { type: 'response.output_item.added', output_index: at, item }
    if (kind === 'function_call') return [...closed, added]
    return [...closed, added, { type: 'response.content_part.added', ...this.#place(open), part: partOf(open) }]
  }

  #close(status: Status): OutputEvent[] {
    const open = this.#open
    if (!open) return []
    // Of the last tokens, whose text did not become whole.
    if (open.kind === 'message') open.logprobs.push(...this.#logprobs.splice(0))
    const place = this.#place(open)
    const item = this.#itemOf(open, status)
    const type = `${deltaTypes[open.kind]}.done`
    const { text, logprobs, name } = open
    this.#items.push(item)
    this.#open = undefined
    const done = { type: 'response.output_item.done', output_index: place.output_index, item }
    if (open.kind === 'function_call') return [{ type, ...place, name, arguments: text }, done]
    return [
      { type, ...place, text, ...(open.kind === 'message' && { logprobs }) },
      { type: 'response.content_part.done', ...place, part: partOf(open) },
      done,
    ]
  }

  #place({ kind, id }: Open) {
    return { item_id: id, output_index: this.#items.length, ...(kind !== 'function_call' && { content_index: 0 }) }
  }

  #itemOf(open: Open, status: Status): OutputItem {
    const { kind, id, text, name, call } = open
    if (kind === 'function_call') return { type: kind, id, status, call_id: callId(this.#head, 0, call), name, arguments: text }
    const content = [partOf(open)]
    if (kind === 'message') return { type: kind, id, status, role: 'assistant', content: content as never }
    return { type: kind, id, status, summary: [], content: content as never }
  }
}

const partOf = ({ kind, text, logprobs }: Open): OutputPart =>
  kind === 'reasoning'
    ? { type: 'reasoning_text', text }
    : { type: 'output_text', text, annotations: [], logprobs: [...logprobs] as never }
