import { systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { readSse } from '../../core/openai/sse-reader.ts'

/** The fields of the last chunk's `brim` object that benchmarks and the demonstration read. */
export interface AnswerReport {
  readonly ttftMs: number
  readonly tbtMs: { readonly p50: number; readonly p95: number }
  /** Null where nothing was verified. */
  readonly acceptLength: number | null
  readonly rounds: number
  readonly reusedTokens: number
  readonly failovers: number
  readonly bytesUp: number
  readonly bytesDown: number
  readonly rates: { readonly prefillTokensPerS: number | null; readonly upBytesPerS: number | null }
  readonly tokenIds: readonly number[]
}

/** An answer as its client received it. */
export interface ClientAnswer {
  readonly text: string
  /** When the request was sent, and when each non-empty piece of text arrived, in ms on the system clock. */
  readonly sentMs: number
  readonly arrivedMs: readonly number[]
  readonly report: AnswerReport
}

/** Body of a completion (`prompt`) or of a chat completion (`messages`), without `stream` and `brim`. */
export type AnswerBody = ({ readonly prompt: readonly number[] } | { readonly messages: readonly object[] }) & {
  readonly max_tokens: number
  readonly temperature: number
  readonly seed?: number
  readonly user?: string
}

export interface AskOptions {
  readonly signal: AbortSignal
  readonly onText?: (piece: string) => void
}

interface Chunk {
  readonly choices?: readonly { readonly text?: string; readonly delta?: { readonly content?: string } }[]
  readonly brim?: AnswerReport
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * Asks an agent's API and reads the stream to its end.
 * @throws BrimError LINK_LOST with the agent's own message and code
 */
export async function askAgent(
  apiUrl: string,
  body: AnswerBody,
  { signal, onText = () => {} }: AskOptions,
): Promise<ClientAnswer> {
  const sentMs = systemClock.nowMs()
  const response = await fetch(`${apiUrl}/v1/${'prompt' in body ? 'completions' : 'chat/completions'}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, brim: { token_ids: true } }),
    signal,
  })
  if (!response.ok || !response.body) throw failure(((await response.json()) as Chunk).error)
  const arrivedMs: number[] = []
  let text = ''
  let report: AnswerReport | undefined
  for await (const data of readSse(response.body)) {
    if (data === '[DONE]') break
    const { choices, brim, error } = JSON.parse(data) as Chunk
    if (error) throw failure(error)
    report = brim ?? report
    const piece = choices?.[0]?.text ?? choices?.[0]?.delta?.content ?? ''
    if (piece === '') continue
    arrivedMs.push(systemClock.nowMs())
    text += piece
    onText(piece)
  }
  if (!report) throw failure(undefined)
  return { text, sentMs, arrivedMs, report }
}

const failure = (error: Chunk['error']) =>
  new BrimError('LINK_LOST', error ? `the agent failed: ${error.message} [${error.code}]` : 'the answer ended without its report')
