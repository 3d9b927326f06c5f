import { type AskOptions, askAgent } from '../../cluster/ask-agent.ts'
import type { HatPrompt } from './workload.ts'

/** One answer as its client saw it; times in ms. */
export interface Answered {
  readonly prompt: string
  readonly promptTokens: number
  readonly tokens: number
  /** From the request to the first text. */
  readonly ttftMs: number
  /** Mean time between tokens; null below two tokens. */
  readonly tbtMs: number | null
  /** When each piece of text arrived, since the request. */
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

export interface HatRequest {
  readonly prompt: HatPrompt
  readonly maxTokens: number
  /** Requests of different users share no cached prefix. */
  readonly user: string
}

/** Asks a device's API for a greedy answer. @throws BrimError LINK_LOST with the agent's message */
export async function askDevice(
  apiUrl: string,
  { prompt, maxTokens, user }: HatRequest,
  signal: AskOptions['signal'],
): Promise<Answered> {
  const body = { prompt: prompt.ids, max_tokens: maxTokens, temperature: 0, user }
  const { sentMs, arrivedMs, report } = await askAgent(apiUrl, body, { signal })
  const { rounds, acceptLength, reusedTokens, bytesUp, bytesDown, rates, tokenIds } = report
  const piecesMs = arrivedMs.map((atMs) => Math.round(100 * (atMs - sentMs)) / 100)
  // An answer that begins with its end-of-text token has no text: the agent's own figure counts.
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
    prefillTokensPerS: rates?.prefillTokensPerS ?? null,
    upBytesPerS: rates?.upBytesPerS ?? null,
    tokenIds,
  }
}
