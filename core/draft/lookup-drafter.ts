import type { KnownStream } from './device-stream.ts'
import { type Drafted, type Drafter, withoutMemory } from './drafter.ts'
import { LookupIndex, type LookupLengths } from './lookup-index.ts'

/** As in Saxena 2023: n-grams of 3 tokens down to 1, at most 10 tokens of what followed; then the draft looks again. */
const lengths: LookupLengths = { shortest: 1, longest: 3 }
const longestRun = 10

/** Drafts what followed the latest occurrence of the last tokens, in prompt or answer. Needs no training. */
export function lookupDrafter(): Drafter {
  const lookup = createLookup(lengths)
  return {
    ...withoutMemory,
    next: async (known, rows) => rows.map((row) => lookup.find(known, row) ?? []),
    catchUp: async (known) => lookup.catchUp(known),
    gather: lookup.keep,
  }
}

/** An index that follows a stream. */
export function createLookup(of: LookupLengths) {
  const index = new LookupIndex(of)
  const keep = (length: number) => index.truncate(Math.min(length, index.length))
  const push = (ids: readonly number[]) => {
    for (const id of ids) index.push(id)
  }
  const catchUp = ({ ids, rows }: KnownStream, line = rows.line) => {
    keep(line)
    push(ids.slice(index.length, line))
  }
  return {
    keep,
    catchUp: (known: KnownStream) => catchUp(known),
    /** What followed the longest n-gram at this row that has occurred before on the way to it. */
    find(known: KnownStream, row: number): Drafted[] | undefined {
      const way = known.rows.pathTo(row)
      catchUp(known, way.line)
      push(way.rows.map((at) => known.ids[at]!))
      const match = index.match()
      // There is no probability to stop by: such a draft ends at its limit.
      const found = match && index.after(match, longestRun).map((token) => ({ token, topProbability: 1, others: [] }))
      keep(way.line)
      return found
    },
  }
}
