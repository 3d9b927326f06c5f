import { type ReadingExperience, readingExperience } from '../../../core/policy/tokenflow/quality.ts'

/** One answer as its reader received it. */
export interface FlowSample {
  /** When the request was sent, since the workload began. */
  readonly atMs: number
  readonly promptTokens: number
  /** Tokens per second that the reader takes. */
  readonly tokensPerS: number
  /** When each token arrived, in ms since the request. */
  readonly arrivedMs: readonly number[]
  /** Why the answer ended early; null: it did not. */
  readonly error: string | null
}

/**
 * When each of `tokens` tokens arrived, if text pieces stand for equal numbers of tokens: a token that completes no character
 * arrives with the piece that does.
 * @param piecesMs when each piece of text arrived, ascending
 */
export function spreadOver(piecesMs: readonly number[], tokens: number): number[] {
  if (piecesMs.length === 0) return []
  return Array.from({ length: tokens }, (_, i) => piecesMs[Math.ceil(((i + 1) * piecesMs.length) / tokens) - 1]!)
}

/** How the answer was to read. */
export function readingOf(sample: FlowSample): ReadingExperience {
  return readingExperience({ tokensPerS: sample.tokensPerS, requestedMs: 0, sentMs: sample.arrivedMs })
}
