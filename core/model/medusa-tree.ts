/**
 * What is wrong with a tree of guesses, or undefined. Each path gives the rank of every head's choice on the way from
 * the root; its parent is the path without the last.
 * @param heads how deep a path can go
 * @param vocab how many choices a head has
 * @returns 'tree.3: …', naming the path by its place
 */
export function findTreeError(tree: readonly (readonly number[])[], heads: number, vocab: number): string | undefined {
  const seen = new Set(['[]'])
  for (const [at, path] of tree.entries()) {
    const name = print(path)
    const fault = (why: string) => `tree.${at}: the path ${name} ${why}`
    if (path.length > heads) return fault(`is longer than there are heads (${heads})`)
    if (path.some((rank) => !(rank < vocab))) return fault(`holds a rank beyond the vocabulary of ${vocab}`)
    if (seen.has(name)) return fault('stands there twice')
    if (!seen.has(print(path.slice(0, -1)))) return fault('has no parent before it')
    seen.add(name)
  }
  return undefined
}

const print = (path: readonly number[]) => `[${path.join(', ')}]`
