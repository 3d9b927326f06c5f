import type { AnswerEnd } from '../text/answer-stream.ts'

/** What is the same in all chunks of an answer. */
export interface Identity {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** An answer in the words of one of OpenAI's endpoints. */
export interface Shape {
  readonly idPrefix: string
  whole(of: Identity, text: string, finishReason: AnswerEnd): object
  /** Comes before any text; undefined where the endpoint has no such chunk. */
  first(of: Identity): object | undefined
  piece(of: Identity, text: string): object
  last(of: Identity, finishReason: AnswerEnd): object
  /** Usage alone. */
  figures(of: Identity): object
}

export const chatShape: Shape = {
  idPrefix: 'chatcmpl',
  whole: (of, text, finishReason) => ({
    ...of,
    object: 'chat.completion',
    choices: [
      { index: 0, message: { role: 'assistant', content: text, refusal: null }, logprobs: null, finish_reason: finishReason },
    ],
  }),
  first: (of) => chatChunk(of, { role: 'assistant', content: '' }, null),
  piece: (of, text) => chatChunk(of, { content: text }, null),
  last: (of, finishReason) => chatChunk(of, {}, finishReason),
  figures: (of) => ({ ...of, object: 'chat.completion.chunk', choices: [] }),
}

export const completionShape: Shape = {
  idPrefix: 'cmpl',
  whole: (of, text, finishReason) => completion(of, text, finishReason),
  first: () => undefined,
  piece: (of, text) => completion(of, text, null),
  last: (of, finishReason) => completion(of, '', finishReason),
  figures: (of) => ({ ...of, object: 'text_completion', choices: [] }),
}

function chatChunk(of: Identity, delta: object, finishReason: AnswerEnd | null): object {
  const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason }
  return { ...of, object: 'chat.completion.chunk', choices: [choice] }
}

function completion(of: Identity, text: string, finishReason: AnswerEnd | null): object {
  return { ...of, object: 'text_completion', choices: [{ index: 0, text, logprobs: null, finish_reason: finishReason }] }
}
