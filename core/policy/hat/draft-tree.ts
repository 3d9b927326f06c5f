/** Drafted tokens, each of which follows another one or the pending token. Parents come before their children. */
export interface DraftTree {
  readonly tokens: readonly number[]
  /** For each token the index of the one that it follows; `root` for the pending token. */
  readonly parents: readonly number[]
}

/** The parent of first tokens: the pending token. */
export const root = -1

/** A draft that does not branch. */
export function chainOf(tokens: readonly number[]): DraftTree {
  return { tokens, parents: tokens.map((_, at) => (at === 0 ? root : at - 1)) }
}

/** Tokens from the root to a node, the node included, >= 1. */
export function depthOf({ parents }: DraftTree, node: number): number {
  let depth = 0
  for (let at = node; at !== root; at = parents[at]!) depth++
  return depth
}

/**
 * Medusa's tree from the likeliest tokens of each head (Cai et al. 2024, arXiv:2401.10774, 'tree attention').
 * @param paths nodes as ranks from the root: [0] is the first head's likeliest token, [0, 2] the second head's third
 *   likeliest after it; every path's parent comes before it
 * @param ranked ranked[head][rank]: head k guesses the token k + 1 places after the pending one
 * @param maxDepth length of the longest path wanted, >= 0: deeper nodes are left out
 * @throws RangeError when a path has no parent, or there are too few heads or ranks
 */
export function medusaTree(
  paths: readonly (readonly number[])[],
  ranked: readonly (readonly number[])[],
  maxDepth: number,
): DraftTree {
  const tokens: number[] = []
  const parents: number[] = []
  const nodes = new Map<string, number>([['', root]])
  for (const path of paths.filter(({ length }) => length <= maxDepth)) {
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
