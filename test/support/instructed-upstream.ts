import type { ServerResponse } from 'node:http'
import { finish, piece, type Received, scriptedUpstream, startStream } from './scripted-upstream.ts'

/** What a request asks of the model: the last paragraph of its last message. */
export interface Asked {
  readonly kind: 'foresight' | 'sketch' | 'line' | 'full'
  /** To be written out. */
  readonly line: string
}

/** The text of a reply, or what the server does instead. */
export type UpstreamReply = string | ((response: ServerResponse) => void)

export const lines = ['flour and water', 'knead it well', 'bake for long']
export const fullAnswer = 'A full answer.'
const byModel = (line: string) => `${line} by the model.`
/** An answer of these lines, each written by a device or by the model. */
export const answerOf = (by: readonly string[], of: readonly string[] = lines) =>
  of.map((line, at) => `${line} by ${by[at]}.`).join(' ')

const usual: Record<Asked['kind'], (asked: Asked) => string> = {
  foresight: () => '100',
  sketch: () => lines.join('\n'),
  line: ({ line }) => byModel(line),
  full: () => fullAnswer,
}

/** A server that does as the general prompts ask. @param reply of this one, where it is another than usual */
export const instructedUpstream = (reply: (asked: Asked) => UpstreamReply | undefined = () => undefined) =>
  scriptedUpstream((response, request) => {
    const asked = askedBy(request)
    const own = reply(asked) ?? usual[asked.kind](asked)
    if (typeof own !== 'string') return own(response)
    // Tokens of their own, so that the bridge measures a speed.
    startStream(response, ...own.split(/(?<=\s)/).map(piece), finish)
    response.end()
  })

function askedBy({ body }: Received): Asked {
  const instruction = (body.messages as { content: string }[]).at(-1)!.content
  const line = /Key words: (.*)$/.exec(instruction)?.[1]
  if (line !== undefined) return { kind: 'line', line }
  if (instruction.includes('How many words')) return { kind: 'foresight', line: '' }
  return { kind: /sketch of it|sketch is not complete/.test(instruction) ? 'sketch' : 'full', line: '' }
}
