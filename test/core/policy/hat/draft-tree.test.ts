import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { acceptTree, chainOf, type DraftTree, depthOf, root, treeOf } from '../../../../core/policy/hat/draft-tree.ts'

/** Three heads' three likeliest tokens each. */
const ranked = [
  [10, 11, 12],
  [20, 21, 22],
  [30, 31, 32],
]
const paths = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 2]]
const tree = treeOf(paths, ranked, 3)

/** What the LLM would say after each node whose path it has taken, and something else after all others. */
const following =
  (draft: DraftTree, answer: readonly number[]) =>
  (node: number): number => {
    const taken: number[] = []
    for (let at = node; at !== root; at = draft.parents[at]!) taken.unshift(draft.tokens[at]!)
    return taken.every((token, at) => token === answer[at]) ? (answer[taken.length] ?? -1) : -2
  }

describe("a tree of the heads' likeliest tokens", () => {
  it('has a node for each path, behind its parent', () => {
    expect(tree.tokens).toEqual([10, 11, 20, 21, 20, 30, 30, 32])
    expect(tree.parents).toEqual([root, root, 0, 0, 1, 2, 3, 2])
    expect(paths.map((_, node) => depthOf(tree, node))).toEqual(paths.map(({ length }) => length))
  })

  it('leaves out what is deeper than wanted', () => {
    expect(treeOf(paths, ranked, 1)).toEqual({ tokens: [10, 11], parents: [root, root] })
    expect(treeOf(paths, ranked, 0)).toEqual({ tokens: [], parents: [] })
  })

  it('is refused where a parent, a head or a rank is missing', () => {
    expect(() => treeOf([[0, 0]], ranked, 9)).toThrow(/no parent/)
    expect(() => treeOf([[]], ranked, 9)).toThrow(/no parent/)
    expect(() => treeOf([[3]], ranked, 9)).toThrow(/no head or rank/)
    expect(() => treeOf([[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]], ranked, 9)).toThrow(/no head or rank/)
  })
})

describe('accepting a tree', () => {
  it.each([
    { what: 'nothing of it is right', answer: [99, 1], path: [], tokens: [99] },
    { what: 'a first choice is right', answer: [10, 99], path: [0], tokens: [10, 99] },
    { what: 'a second choice is right', answer: [11, 20, 5], path: [1, 4], tokens: [11, 20, 5] },
    {
      what: 'a branch is right to its end: the bonus comes on top',
      answer: [10, 21, 30, 7],
      path: [0, 3, 6],
      tokens: [10, 21, 30, 7],
    },
    { what: 'a right token hangs from a wrong one: it is lost', answer: [12, 20, 30], path: [], tokens: [12] },
  ])('$what', ({ answer, path, tokens }) => {
    expect(acceptTree(tree, following(tree, answer))).toEqual({ path, tokens })
  })

  it.each([
    { what: 'nothing was drafted', draft: [], choices: [7], accepted: 0, tokens: [7] },
    { what: 'all of it is right: the bonus comes on top', draft: [1, 2], choices: [1, 2, 4], accepted: 2, tokens: [1, 2, 4] },
    { what: 'the first is wrong', draft: [1, 2, 3], choices: [9, 2, 3, 4], accepted: 0, tokens: [9] },
    { what: 'one in the middle is wrong', draft: [1, 2, 3], choices: [1, 9, 3, 4], accepted: 1, tokens: [1, 9] },
    { what: 'the last is wrong', draft: [1, 2, 3], choices: [1, 2, 9, 4], accepted: 2, tokens: [1, 2, 9] },
    { what: 'a right token follows a wrong one: it is lost', draft: [5, 2], choices: [1, 2, 3], accepted: 0, tokens: [1] },
  ])('of a draft that does not branch, where $what', ({ draft, choices, accepted, tokens }) => {
    const accepting = acceptTree(chainOf(draft), (node) => choices[node + 1]!)
    expect({ accepted: accepting.path.length, tokens: accepting.tokens }).toEqual({ accepted, tokens })
  })

  it('yields of a draft that does not branch a prefix of what the LLM chose, one longer than what they share', () => {
    const token = fc.integer({ min: 0, max: 2 })
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), fc.array(token, { minLength: 9, maxLength: 9 }), (draft, choices) => {
        const { path, tokens } = acceptTree(chainOf(draft), (node) => choices[node + 1]!)
        expect(path).toEqual(path.map((_, at) => at))
        expect(tokens).toEqual(choices.slice(0, path.length + 1))
        expect(tokens.slice(0, path.length)).toEqual(draft.slice(0, path.length))
        if (path.length < draft.length) expect(draft[path.length]).not.toBe(choices[path.length])
      }),
    )
  })

  it('yields the longest path that the answer takes, and what the LLM says next', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(10, 11, 20, 21, 30, 32), { minLength: 4, maxLength: 4 }), (answer) => {
        const { path, tokens } = acceptTree(tree, following(tree, answer))
        expect(tokens).toEqual(answer.slice(0, path.length + 1))
        const longest = paths
          .filter((ranks) => ranks.every((rank, depth) => ranked[depth]![rank] === answer[depth]))
          .reduce((most, { length }) => Math.max(most, length), 0)
        expect(path.length).toBe(longest)
      }),
    )
  })
})
