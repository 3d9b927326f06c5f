import type { Turn } from './turn.ts'

/** Tokens that came at once; where the server does not count them, each piece of text is one. */
export interface Arrival {
  /** Since the question. */
  readonly atMs: number
  readonly fresh: number
  /** Up to it, itself included. */
  readonly tokens: number
  readonly text: string
}

export function arrivalsOf({ pieces }: Pick<Turn, 'pieces'>): Arrival[] {
  let before = 0
  return pieces.map(({ atMs, text, tokens = before + 1 }) => {
    const fresh = Math.max(0, tokens - before)
    before = Math.max(before, tokens)
    return { atMs, fresh, tokens: before, text }
  })
}

/** Tokens that have come and that the reader has not read yet. */
export interface Unread {
  readonly atMs: number
  readonly tokens: number
}

/**
 * The reader's buffer (TokenFlow): it begins to read with the first token, at its rate, and waits where nothing is unread.
 * @param untilMs of the last point
 * @returns before and after each arrival
 */
export function bufferOf(arrivals: readonly Arrival[], tokensPerS: number, untilMs: number): Unread[] {
  let [lastMs, unread, before] = [arrivals[0]?.atMs ?? 0, 0, 0]
  const readUntil = (atMs: number) => {
    unread = Math.max(0, unread - (tokensPerS * (atMs - lastMs)) / 1_000)
    lastMs = atMs
    return { atMs, tokens: unread }
  }
  const points = arrivals.flatMap(({ atMs, tokens }) => {
    const read = readUntil(atMs)
    unread += tokens - before
    before = tokens
    return [read, { atMs, tokens: unread }]
  })
  return arrivals.length === 0 ? [] : [...points, readUntil(Math.max(untilMs, lastMs))]
}

type Sources = readonly { readonly from: number; readonly tokens: number; readonly source: string; readonly device?: string }[]

/** The device or side that wrote each piece; undefined before the report says so. */
export function writersOf(arrivals: readonly Arrival[], sources: Sources = []): (string | undefined)[] {
  return arrivals.map(({ tokens, fresh }) => {
    const first = tokens - fresh
    const span = sources.find(({ from, tokens }) => first >= from && first < from + tokens)
    return span && (span.device ?? span.source)
  })
}

/** A part of the time of an answer. The parts overlap where device, link and bridge work at once. */
export interface TimePart {
  readonly name: string
  readonly ms: number
}

/** Where the time of a HAT answer went, by the rates that its report has. */
export function timeParts({ report, usage }: Pick<Turn, 'report' | 'usage'>): TimePart[] {
  if (!report || report.rounds === 0) return []
  const { rates, bytesUp, bytesDown, drafted, ahead, reusedTokens } = report
  const over = (amount: number, perS: number | null) => (perS === null ? 0 : (1_000 * amount) / perS)
  const parts = [
    { name: 'prefill on the device', ms: over((usage?.prompt_tokens ?? 0) - reusedTokens, rates.prefillTokensPerS) },
    { name: 'drafting', ms: (rates.draftStepMs ?? 0) * (drafted + (ahead?.drafted ?? 0)) },
    { name: 'sending', ms: over(bytesUp, rates.upBytesPerS) },
    { name: 'receiving', ms: over(bytesDown, rates.downBytesPerS) },
  ]
  return parts.filter(({ ms }) => ms > 0)
}
