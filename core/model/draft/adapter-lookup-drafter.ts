import { defaultDraftThreshold } from '../../policy/hat/draft-gain.ts'
import type { Drafter } from './drafter.ts'
import { streamLookup } from './lookup-drafter.ts'
import type { NgramLengths } from './lookup-index.ts'

/** Matches of a single token are too frequent, and their continuations are mostly wrong. */
const lengths: NgramLengths = { shortest: 2, longest: 4 }

/**
 * Drafts with the adapter. If its confidence is below η, it continues with the tokens that
 * followed the last n-gram at its previous occurrence, if there is one. The rule was chosen on the held-out prompts with two
 * LLMs, which ranked the alternatives equally. Accept length of all answers / of answers without loops for the later LLM:
 * adapter alone 1.61 / 1.61; this rule 2.82 / 1.94; with n-grams of one token too 2.78 / 1.89; of at least three 2.71 / 1.89;
 * lookup first if two tokens match 2.81 / 1.92; if four match 2.60 / 1.82; lookup only if it starts with the adapter's token
 * 2.53 / 1.88. Lookup first needs fewer steps, but its disadvantage increases with the quality of the adapter.
 * @param threshold η of HAT Eq. 5, 0..1
 */
export function adapterLookupDrafter(adapter: Drafter, threshold = defaultDraftThreshold): Drafter {
  const lookup = streamLookup(lengths)
  return {
    async next(known, rows) {
      const all = await adapter.next(known, rows)
      return all.map((drafted, at) => {
        const isConfident = drafted.some(({ topProbability }) => topProbability >= threshold)
        return isConfident ? drafted : (lookup.find(known, rows[at]!) ?? drafted)
      })
    },
    async catchUp(known) {
      lookup.catchUp(known)
      await adapter.catchUp(known)
    },
    gather(keep, rows) {
      lookup.truncate(keep)
      adapter.gather(keep, rows)
    },
    release: () => adapter.release(),
  }
}
