/** What one verification yields. */
export interface Acceptance {
  /** Drafted tokens kept: 0..k; what follows the first wrong one is dropped. */
  readonly accepted: number
  /** The kept tokens and one more: the correction where a draft was wrong, the bonus where none was. 1..k+1 tokens. */
  readonly tokens: readonly number[]
}

/**
 * The longest prefix of the draft that the LLM would have chosen itself, plus the LLM's next token. HAT 'Speculative
 * decoding'. When draft and LLM choose by Gumbel-max with the same noise, "equal to the LLM's choice" is the whole
 * accept rule, with sampling too: the answer is the one that the LLM would have drawn alone, so its distribution is the
 * LLM's exactly (we depart from Leviathan's resampling, which draws anew and so depends on what was drafted).
 * @param draft k drafted tokens
 * @param choices k + 1 tokens: the LLM's own choice after the pending token and after each drafted one
 * @throws RangeError when the lengths do not fit
 */
export function acceptDraft(draft: readonly number[], choices: readonly number[]): Acceptance {
  if (choices.length !== draft.length + 1)
    throw new RangeError(`${draft.length} drafted tokens need ${draft.length + 1} choices, not ${choices.length}`)
  const wrong = draft.findIndex((token, at) => token !== choices[at])
  const accepted = wrong < 0 ? draft.length : wrong
  return { accepted, tokens: choices.slice(0, accepted + 1) }
}
