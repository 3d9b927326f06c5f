import type { AnswerRequest, Endpoint, TextDelta } from '../../core/answer/endpoint/endpoint.ts'

/** Replies of a model on another server: pieces of text, or a failure after them. */
export interface Reply {
  readonly pieces: Iterable<string> | AsyncIterable<string>
  readonly end?: 'stop' | 'length'
  readonly error?: Error
}

/** What is asked of it: the last paragraph of the conversation, and the request. */
export interface Call {
  readonly instruction: string
  readonly request: AnswerRequest
  readonly signal: AbortSignal
}

export interface ScriptedLlm extends Endpoint {
  readonly calls: readonly Call[]
  /** Replies that have not ended. */
  readonly running: ReadonlySet<Call>
}

/** A model on another server as the test writes it. A reply of no end waits until it is canceled. */
export function scriptedLlm(reply: (call: Call) => Reply | 'waits'): ScriptedLlm {
  const model = { name: 'llm' }
  const calls: Call[] = []
  const running = new Set<Call>()
  return {
    model,
    calls,
    running,
    async *answer(request, signal): AsyncGenerator<TextDelta> {
      const content = request.prompt.asText()
      const text = content.kind === 'chat' ? (content.messages.at(-1)?.content ?? '') : content.text
      const call = { instruction: text.split('\n\n').slice(1).join('\n\n'), request, signal }
      calls.push(call)
      running.add(call)
      const source = { kind: 'upstream', model } as const
      const given = reply(call)
      try {
        if (given === 'waits')
          return void (await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))))
        for await (const piece of given.pieces) {
          signal.throwIfAborted()
          yield { source, text: piece, tokenCount: 1, end: undefined }
        }
        if (given.error) throw given.error
        yield { source, text: '', tokenCount: 0, end: given.end ?? 'stop', promptTokens: 7 }
      } finally {
        running.delete(call)
      }
    },
  }
}
