import type { KnownStream } from './device-stream.ts'
import { type DraftedToken, type Drafter, stateless } from './drafter.ts'
import { LookupIndex, type NgramLengths } from './lookup-index.ts'

/** As in Saxena 2023: n-grams of 3 down to 1 tokens, and up to 10 tokens of what followed. */
const lengths: NgramLengths = { shortest: 1, longest: 3 }
const maxRun = 10

/** Drafts what followed the latest earlier occurrence of the last tokens, in prompt or answer. Needs no training. */
export function lookupDrafter(): Drafter {
  const lookup = streamLookup(lengths)
  return {
    ...stateless,
    next: async (known, rows) => rows.map((row) => lookup.find(known, row) ?? []),
    catchUp: async (known) => lookup.catchUp(known),
    gather: lookup.keep,
  }
}

/** A lookup index that follows a stream. */
export function streamLookup(of: NgramLengths) {
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
    /** What followed the longest n-gram that ends at this row and has occurred before on the path to it. */
    find(known: KnownStream, row: number): DraftedToken[] | undefined {
      const way = known.rows.pathTo(row)
      catchUp(known, way.line)
      push(way.rows.map((at) => known.ids[at]!))
      const match = index.match()
      // Without probabilities the draft ends at its length limit only.
      const found = match && index.after(match, maxRun).map((token) => ({ token, topProbability: 1, alternatives: [] }))
      keep(way.line)
      return found
    },
  }
}
