/** What bounds the number of groups that a sketch is expanded in. */
export interface MergeTerms {
  /** Sequences that memory holds, ≥ 1. */
  readonly maxGroups: number
  /** f(l) − f(|r|), less what is spent of it: merged groups may not take longer. */
  readonly budgetS: number
  /**
   * Merging may take this many times as long as not merging. 1: only where it costs nothing, because the prefix of all groups is
   * computed once and packed decoding gets cheaper per token. ∞: the paper's rule, as far as the budget allows.
   */
  readonly maxSlowdown: number
  /** Predicted time for these groups. */
  secondsOf(groups: readonly (readonly number[])[]): number
}

/**
 * Groups of sentences, each expanded in one sequence, by binary-tree merging (PICE §IV-B): of the groups sorted by their
 * number of words, the first joins the last, the second the last but one, and so on, again and again.
 * @param words number of words of each sentence
 * @returns indices, ascending in each group; every sentence is in exactly one
 */
export function mergeSentences(words: readonly number[], { maxGroups, budgetS, maxSlowdown, secondsOf }: MergeTerms): number[][] {
  let groups = words.map((_, at) => [at])
  while (groups.length > maxGroups && groups.length > 1) groups = paired(groups, words)
  if (groups.length < 2) return groups
  const limitS = Math.min(budgetS, maxSlowdown * secondsOf(groups))
  while (groups.length > 1) {
    const merged = paired(groups, words)
    if (!(secondsOf(merged) <= limitS)) break
    groups = merged
  }
  return groups
}

function paired(groups: readonly number[][], words: readonly number[]): number[][] {
  const wordsOf = (group: readonly number[]) => group.reduce((sum, at) => sum + words[at]!, 0)
  const sorted = groups.map((group) => ({ group, words: wordsOf(group) })).sort((a, b) => a.words - b.words)
  const half = Math.ceil(sorted.length / 2)
  return Array.from({ length: half }, (_, at) => {
    const other = sorted.length - 1 - at
    return other === at ? sorted[at]!.group : [...sorted[at]!.group, ...sorted[other]!.group].sort((a, b) => a - b)
  })
}
