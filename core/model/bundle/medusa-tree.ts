/**
 * Checks a tree of guesses. A path lists the rank of each head's guess from the root; its parent is the path without its
 * last rank.
 * @param heads maximum length of a path
 * @param vocab number of ranks
 * @returns the first error as 'tree.<index of the path>: …', or undefined
 */
export function findTreeError(tree: readonly (readonly number[])[], heads: number, vocab: number): string | undefined {
  const seen = new Set(['[]'])
  for (const [at, path] of tree.entries()) {
    const name = print(path)
    const error = (why: string) => `tree.${at}: the path ${name} ${why}`
    if (path.length > heads) return error(`is longer than the number of heads (${heads})`)
    if (path.some((rank) => !(rank < vocab))) return error(`has a rank beyond the vocabulary of ${vocab}`)
    if (seen.has(name)) return error('is listed twice')
    if (!seen.has(print(path.slice(0, -1)))) return error('comes before its parent')
    seen.add(name)
  }
  return undefined
}

const print = (path: readonly number[]) => `[${path.join(', ')}]`
