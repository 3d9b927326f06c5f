import { type DraftTree, root } from './draft-tree.ts'

/** What one verification yields. */
export interface Acceptance {
  /** The accepted nodes, from the root downwards. */
  readonly path: readonly number[]
  /** Their tokens, and the LLM's own choice after the last of them: 1..depth + 1 tokens. */
  readonly tokens: readonly number[]
}

/**
 * The accept rule (HAT 'Speculative decoding'): the longest path of the draft that equals the LLM's own choices, plus its
 * next token. That is the correction where the draft is wrong, the bonus token where a path is right to its end.
 *
 * Draft and LLM choose by Gumbel-max with the same noise, so 'equal to the LLM's choice' is the whole rule with sampling
 * too: the answer is the one that the LLM would have drawn alone, and has its distribution exactly. (We depart from
 * Leviathan's resampling, which draws again and so depends on the draft.)
 * @param choiceAfter the LLM's choice after a node, or after `root`
 */
export function acceptDraft({ tokens, parents }: DraftTree, choiceAfter: (node: number) => number): Acceptance {
  const path: number[] = []
  const accepted: number[] = []
  for (let node = root; ; ) {
    const choice = choiceAfter(node)
    accepted.push(choice)
    node = tokens.findIndex((token, at) => parents[at] === node && token === choice)
    if (node < 0) return { path, tokens: accepted }
    path.push(node)
  }
}
