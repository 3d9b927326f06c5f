import { seededRandom } from '../../../core/kit/base/random.ts'
import type { TracedRequest } from '../traces/request-trace.ts'

/** Kinds of requests, which are parts of the workload. */
export type Kind = 'private' | 'long' | 'cheap'

export interface DayRequest extends Omit<TracedRequest, 'atMs'> {
  readonly atS: number
  readonly part: Kind
}

/** A trace, and what becomes of its requests. */
export interface TracePart {
  readonly requests: readonly TracedRequest[]
  /** Factor of its prompts. */
  readonly prompts: number
  /** Of its requests, that are private. */
  readonly privateShare: number
}

/** Answers of so many tokens are long. */
export const longTokens = 300

/** Longer silences than this are not of the recording: the traces are excerpts of whole two-minute blocks. */
const maxGapMs = 10_000

/** The requests of several traces together, without the gaps between their blocks, up to the end of the shortest. */
export function traceDay(parts: readonly TracePart[], seed: number): DayRequest[] {
  const random = seededRandom(seed)
  const traces = parts.map(({ requests, prompts, privateShare }) => {
    let atMs = 0
    return requests.map((request, i): DayRequest => {
      atMs += Math.min(maxGapMs, i === 0 ? 0 : request.atMs - requests[i - 1]!.atMs)
      const isPrivate = random.next() < privateShare
      const promptTokens = Math.max(1, Math.round(request.promptTokens * prompts))
      return {
        atS: atMs / 1_000,
        promptTokens,
        outputTokens: request.outputTokens,
        sharedTokens: Math.min(promptTokens - 1, Math.round(request.sharedTokens * prompts)),
        part: isPrivate ? 'private' : request.outputTokens >= longTokens ? 'long' : 'cheap',
      }
    })
  })
  const endS = Math.min(...traces.map((trace) => trace.at(-1)?.atS ?? 0))
  return traces
    .flat()
    .filter(({ atS }) => atS <= endS)
    .sort((a, b) => a.atS - b.atS)
}

/** The busiest stretch of a day: its requests, from its beginning on. */
export function busiest(day: readonly DayRequest[], seconds: number): DayRequest[] {
  let [first, most, from] = [0, 0, 0]
  for (let last = 0; last < day.length; last += 1) {
    while (day[last]!.atS - day[first]!.atS >= seconds) first += 1
    if (last - first + 1 > most) [most, from] = [last - first + 1, first]
  }
  const fromS = day[from]?.atS ?? 0
  return day.slice(from, from + most).map((request) => ({ ...request, atS: request.atS - fromS }))
}
