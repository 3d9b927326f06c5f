import type { Agent } from '../../agent/agent.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { type AnswerBody, streamAnswerFrom } from '../../core/wire/openai/client.ts'
import type { BrimReport } from '../../core/wire/openai/responses.ts'

export interface StreamedText {
  /** What the reader got, also of an answer that failed. */
  readonly text: string
  /** When each piece of it arrived, in ms on the clock of `performance`. */
  readonly arrivedMs: readonly number[]
  readonly report: BrimReport & { readonly disco: NonNullable<BrimReport['disco']> }
  readonly sources: readonly string[]
  readonly error?: BrimError
}

export const question = [{ role: 'user' as const, content: 'Tell me a story about a king.' }]

/**
 * Asks an agent for a streamed answer, greedily.
 * @param more fields of the request; a `prompt` replaces the question
 * @param onText gets the number of pieces of text so far
 */
export async function askStreaming(
  { apiUrl }: Pick<Agent, 'apiUrl'>,
  brim: Readonly<Record<string, unknown>>,
  more: object = {},
  onText: (pieces: number) => void = () => {},
): Promise<StreamedText> {
  let text = ''
  const arrivedMs: number[] = []
  const asked = 'prompt' in more ? {} : { messages: question }
  const body = { ...asked, temperature: 0, max_tokens: 24, ...more, brim } as AnswerBody
  const listeners = {
    onText(piece: string) {
      text += piece
      arrivedMs.push(performance.now())
      onText(arrivedMs.length)
    },
  }
  try {
    const { report } = await streamAnswerFrom({ server: 'agent', url: apiUrl }, body, new AbortController().signal, listeners)
    return { text, arrivedMs, report: report as StreamedText['report'], sources: report.sources.map(({ source }) => source) }
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    return { text, arrivedMs, report: undefined as never, sources: [], error }
  }
}
