import { describe, expect, it } from 'vitest'
import { depthOf, medusaTree, root } from '../../../../core/policy/hat/draft-tree.ts'

/** The three likeliest tokens of each of three heads. */
const ranked = [
  [10, 11, 12],
  [20, 21, 22],
  [30, 31, 32],
]
const paths = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 2]]
const tree = medusaTree(paths, ranked, 3)

describe("a tree of the heads' likeliest tokens", () => {
  it('has a node for each path, after its parent', () => {
    expect(tree.tokens).toEqual([10, 11, 20, 21, 20, 30, 30, 32])
    expect(tree.parents).toEqual([root, root, 0, 0, 1, 2, 3, 2])
    expect(paths.map((_, node) => depthOf(tree, node))).toEqual(paths.map(({ length }) => length))
  })

  it('leaves out nodes deeper than the maximum depth', () => {
    expect(medusaTree(paths, ranked, 1)).toEqual({ tokens: [10, 11], parents: [root, root] })
    expect(medusaTree(paths, ranked, 0)).toEqual({ tokens: [], parents: [] })
  })

  it('rejects paths without a parent, and too few heads or ranks', () => {
    expect(() => medusaTree([[0, 0]], ranked, 9)).toThrow(/no parent/)
    expect(() => medusaTree([[]], ranked, 9)).toThrow(/no parent/)
    expect(() => medusaTree([[3]], ranked, 9)).toThrow(/no head or rank/)
    expect(() => medusaTree([[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]], ranked, 9)).toThrow(/no head or rank/)
  })
})
