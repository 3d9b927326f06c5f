/** Drafted tokens of which each follows another one or the pending token: parents stand before their children. */
export interface DraftTree {
  readonly tokens: readonly number[]
  /** For each token the place in `tokens` of the one that it follows; `root`: the pending token. */
  readonly parents: readonly number[]
}

/** What a draft hangs from: the pending token. */
export const root = -1

/** A draft that does not branch. */
export function chainOf(tokens: readonly number[]): DraftTree {
  return { tokens, parents: tokens.map((_, at) => (at === 0 ? root : at - 1)) }
}

/** A node's number of tokens from the root to itself, itself included, >= 1. */
export function depthOf({ parents }: DraftTree, node: number): number {
  let depth = 0
  for (let at = node; at !== root; at = parents[at]!) depth++
  return depth
}

/**
 * Medusa's tree from the likeliest tokens of each head (Cai et al. 2024, arXiv:2401.10774, 'tree attention').
 * @param paths nodes as ranks from the root: [0] the first head's likeliest token, [0, 2] after it the second head's third;
 *   every path's parent stands before it
 * @param ranked ranked[head][rank]: head k guesses the token k + 1 places after the pending one
 * @param deepest longest path wanted, >= 0: nodes below it are left out
 * @throws RangeError when a path's parent is missing or heads or ranks are too few
 */
export function treeOf(
  paths: readonly (readonly number[])[],
  ranked: readonly (readonly number[])[],
  deepest: number,
): DraftTree {
  const tokens: number[] = []
  const parents: number[] = []
  const nodes = new Map<string, number>([['', root]])
  for (const path of paths.filter(({ length }) => length <= deepest)) {
    const parent = nodes.get(path.slice(0, -1).join())
    const token = ranked[path.length - 1]?.[path.at(-1) ?? 0]
    if (path.length === 0 || parent === undefined) throw new RangeError(`the tree's node [${path}] has no parent before it`)
    if (token === undefined) throw new RangeError(`no head or rank for the tree's node [${path}]`)
    nodes.set(path.join(), tokens.length)
    tokens.push(token)
    parents.push(parent)
  }
  return { tokens, parents }
}

/** What one verification yields. */
export interface TreeAcceptance {
  /** The accepted nodes from the root downwards. */
  readonly path: readonly number[]
  /** Their tokens and one more, the LLM's own choice after the last of them: 1..depth + 1 tokens. */
  readonly tokens: readonly number[]
}

/**
 * The path of the draft that the LLM would have taken itself, plus its next token: the correction where its choice is none
 * of a node's children, the bonus where a path is right to its end. HAT 'Speculative decoding'. When draft and LLM choose
 * by Gumbel-max with the same noise, "equal to the LLM's choice" is the whole accept rule, with sampling too: the answer is
 * the one that the LLM would have drawn alone, so its distribution is the LLM's exactly (we depart from Leviathan's
 * resampling, which draws anew and so depends on what was drafted).
 * @param choiceAfter the LLM's own choice after a node, or after `root`
 */
export function acceptTree({ tokens, parents }: DraftTree, choiceAfter: (node: number) => number): TreeAcceptance {
  const path: number[] = []
  const kept: number[] = []
  for (let node = root; ; ) {
    const choice = choiceAfter(node)
    kept.push(choice)
    node = tokens.findIndex((token, at) => parents[at] === node && token === choice)
    if (node < 0) return { path, tokens: kept }
    path.push(node)
  }
}
