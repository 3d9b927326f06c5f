import type { KnownStream } from './device-stream.ts'
import { type DraftedToken, type Drafter, stateless } from './drafter.ts'
import { LookupIndex, type NgramLengths } from './lookup-index.ts'

/** As in Saxena 2023: n-grams of 1 to 3 tokens, and continuations of up to 10 tokens. */
const lengths: NgramLengths = { shortest: 1, longest: 3 }
const maxRun = 10
/** Taken for the chance that what followed an n-gram follows it again, until verifications have shown more: 1/2, 2/3, 3/4, 4/5. */
const confidenceOf = ({ length }: { readonly length: number }): number => length / (length + 1)

/** Drafts the continuation of the previous occurrence of the last tokens, in prompt or answer. Needs no training. */
export function lookupDrafter(): Drafter {
  const lookup = streamLookup(lengths)
  return {
    ...stateless,
    next: async (known, rows) => rows.map((row) => lookup.find(known, row) ?? []),
    catchUp: async (known) => lookup.catchUp(known),
    gather: lookup.truncate,
  }
}

/** A lookup index that follows a stream. */
export function streamLookup(ngrams: NgramLengths) {
  const index = new LookupIndex(ngrams)
  const truncate = (length: number) => index.truncate(Math.min(length, index.length))
  const push = (ids: readonly number[]) => {
    for (const id of ids) index.push(id)
  }
  const catchUp = ({ ids, rows }: KnownStream, line = rows.line) => {
    truncate(line)
    push(ids.slice(index.length, line))
  }
  return {
    truncate,
    catchUp: (known: KnownStream) => catchUp(known),
    /** The continuation of the longest n-gram that ends at this row and has occurred before on the path to it. */
    find(known: KnownStream, row: number): DraftedToken[] | undefined {
      const path = known.rows.pathTo(row)
      catchUp(known, path.line)
      push(path.rows.map((at) => known.ids[at]!))
      const match = index.match()
      const topProbability = match ? confidenceOf(match) : 0
      const found =
        match &&
        index.after(match, maxRun).map((token) => ({ token, source: 'lookup' as const, topProbability, alternatives: [] }))
      truncate(path.line)
      return found
    },
  }
}
