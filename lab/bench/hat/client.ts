import { BrimError } from '../../../core/base/errors.ts'
import { readSse } from '../../../core/openai/sse-reader.ts'
import type { HatPrompt } from './workload.ts'

/** One answer, as whoever asked saw it; times in ms. */
export interface Answered {
  readonly prompt: string
  readonly promptTokens: number
  readonly tokens: number
  /** From the request to the first text. */
  readonly ttftMs: number
  /** Mean time between tokens; null below two. */
  readonly tbtMs: number | null
  /** When each piece of text came, since the request. */
  readonly piecesMs: readonly number[]
  readonly rounds: number
  readonly acceptLength: number | null
  readonly reusedTokens: number
  readonly bytesUp: number
  readonly bytesDown: number
  /** What the device had measured of itself and its link. */
  readonly prefillTokensPerS: number | null
  readonly upBytesPerS: number | null
  readonly tokenIds: readonly number[]
}

/** The field of our own in the agent's last chunk. */
interface Report {
  ttftMs: number
  rounds: number
  acceptLength: number | null
  reusedTokens: number
  bytesUp: number
  bytesDown: number
  rates: { prefillTokensPerS: number | null; upBytesPerS: number | null }
  tokenIds: number[]
}

export interface Asked {
  readonly prompt: HatPrompt
  readonly maxTokens: number
  /** Nobody begins with what another one asked. */
  readonly user: string
}

/** Asks a device's own API, greedily, and reads the stream. @throws BrimError LINK_LOST with what the agent said */
export async function askAgent(apiUrl: string, { prompt, maxTokens, user }: Asked, signal: AbortSignal): Promise<Answered> {
  const startedMs = performance.now()
  const response = await fetch(`${apiUrl}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      prompt: prompt.ids,
      max_tokens: maxTokens,
      temperature: 0,
      stream: true,
      user,
      brim: { token_ids: true },
    }),
    signal,
  })
  if (!response.ok || !response.body)
    throw new BrimError('LINK_LOST', `${user} was answered ${response.status}: ${await response.text()}`)
  const piecesMs: number[] = []
  let report: Report | undefined
  for await (const data of readSse(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as { choices?: { text?: string }[]; brim?: Report; error?: { message: string } }
    if (chunk.error) throw new BrimError('LINK_LOST', `${user}: ${chunk.error.message}`)
    if ((chunk.choices?.[0]?.text ?? '') !== '') piecesMs.push(Math.round(100 * (performance.now() - startedMs)) / 100)
    report = chunk.brim ?? report
  }
  if (!report) throw new BrimError('LINK_LOST', `${user}: the answer ended without figures`)
  const { rounds, acceptLength, reusedTokens, bytesUp, bytesDown, rates, tokenIds } = report
  // An answer that begins with its end has no text: then the agent's own word counts.
  const ttftMs = piecesMs[0] ?? report.ttftMs
  const tokens = tokenIds.length
  return {
    prompt: prompt.id,
    promptTokens: prompt.ids.length,
    tokens,
    ttftMs,
    tbtMs: tokens > 1 && piecesMs.length > 1 ? (piecesMs.at(-1)! - ttftMs) / (tokens - 1) : null,
    piecesMs,
    rounds,
    acceptLength,
    reusedTokens,
    bytesUp,
    bytesDown,
    prefillTokensPerS: rates.prefillTokensPerS,
    upBytesPerS: rates.upBytesPerS,
    tokenIds,
  }
}
