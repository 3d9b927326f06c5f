import { LookupIndex, type LookupLengths } from '../policy/hat/lookup.ts'
import type { KnownStream } from './device-stream.ts'
import type { Drafted, Drafter } from './drafter.ts'

/** As in Saxena 2023: n-grams of 3 tokens down to 1, at most 10 tokens of what followed; then the draft looks again. */
const lengths: LookupLengths = { shortest: 1, longest: 3 }
const longestRun = 10

/** Drafts what followed the latest occurrence of the last tokens, in prompt or answer. Needs no training. */
export function lookupDrafter(): Drafter {
  const lookup = createLookup(lengths)
  return {
    next: async (known) => lookup.find(known) ?? [],
    catchUp: async (known) => lookup.catchUp(known),
    truncate: lookup.truncate,
    release() {},
  }
}

/** An index that follows a stream. */
export function createLookup(of: LookupLengths) {
  const index = new LookupIndex(of)
  const catchUp = ({ ids }: KnownStream) => {
    while (index.length < ids.length) index.push(ids[index.length]!)
  }
  return {
    catchUp,
    /** What followed the longest n-gram that has occurred before. */
    find(known: KnownStream): Drafted[] | undefined {
      catchUp(known)
      const match = index.match()
      // There is no probability to stop by: such a draft ends at its limit.
      return match && index.after(match, longestRun).map((token) => ({ token, topProbability: 1 }))
    },
    truncate: (length: number) => index.truncate(Math.min(length, index.length)),
  }
}
