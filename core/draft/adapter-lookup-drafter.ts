import type { Drafter } from './drafter.ts'
import { createLookup } from './lookup-drafter.ts'
import type { LookupLengths } from './lookup-index.ts'

/** One token alone is found nearly everywhere, and what followed it is mostly wrong. */
const lengths: LookupLengths = { shortest: 2, longest: 4 }

/**
 * The adapter first; where it is less sure than η, so that its draft would end, what followed the last n-gram, if that
 * has occurred before. Chosen on the held-out prompts with two LLMs (accept length of all answers / of those that do not
 * loop; here of the later LLM, the order was the same for both): adapter alone 1.61 / 1.61; this rule 2.82 / 1.94; with
 * n-grams of one token too 2.78 / 1.89, of three or more only 2.71 / 1.89; lookup first wherever two tokens match
 * 2.81 / 1.92, where four do 2.60 / 1.82; lookup only where it begins with the adapter's token 2.53 / 1.88. Lookup first
 * costs fewer steps, but the better an adapter is, the more is lost by passing it over.
 * @param threshold η of HAT Eq. 5, 0..1
 */
export function adapterLookupDrafter(adapter: Drafter, threshold: number): Drafter {
  const lookup = createLookup(lengths)
  return {
    async next(known, rows) {
      const all = await adapter.next(known, rows)
      return all.map((drafted, at) => {
        const isSure = drafted.some(({ topProbability }) => topProbability >= threshold)
        return isSure ? drafted : (lookup.find(known, rows[at]!) ?? drafted)
      })
    },
    async catchUp(known) {
      lookup.catchUp(known)
      await adapter.catchUp(known)
    },
    gather(keep, rows) {
      lookup.keep(keep)
      adapter.gather(keep, rows)
    },
    release: () => adapter.release(),
  }
}
