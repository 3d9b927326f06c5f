import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { acceptDraft } from '../../../../core/policy/hat/accept-draft.ts'
import { chainOf, type DraftTree, medusaTree, root } from '../../../../core/policy/hat/draft-tree.ts'

/** The three likeliest tokens of each of three heads. */
const ranked = [
  [10, 11, 12],
  [20, 21, 22],
  [30, 31, 32],
]
const paths = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 2]]
const tree = medusaTree(paths, ranked, 3)

/** The LLM's choices: the answer's next token after nodes on its path, a token of no draft after others. */
const following =
  (draft: DraftTree, answer: readonly number[]) =>
  (node: number): number => {
    const taken: number[] = []
    for (let at = node; at !== root; at = draft.parents[at]!) taken.unshift(draft.tokens[at]!)
    return taken.every((token, at) => token === answer[at]) ? (answer[taken.length] ?? -1) : -2
  }

describe('accepting a draft', () => {
  it.each([
    { what: 'no token is right', answer: [99, 1], path: [], tokens: [99] },
    { what: 'a first choice is right', answer: [10, 99], path: [0], tokens: [10, 99] },
    { what: 'a second choice is right', answer: [11, 20, 5], path: [1, 4], tokens: [11, 20, 5] },
    {
      what: 'a branch is right to its end: the bonus token follows',
      answer: [10, 21, 30, 7],
      path: [0, 3, 6],
      tokens: [10, 21, 30, 7],
    },
    { what: 'a right token follows a wrong one: it is dropped', answer: [12, 20, 30], path: [], tokens: [12] },
  ])('a tree, where $what', ({ answer, path, tokens }) => {
    expect(acceptDraft(tree, following(tree, answer))).toEqual({ path, tokens })
  })

  it.each([
    { what: 'no token was drafted', draft: [], choices: [7], accepted: 0, tokens: [7] },
    { what: 'all tokens are right: the bonus token follows', draft: [1, 2], choices: [1, 2, 4], accepted: 2, tokens: [1, 2, 4] },
    { what: 'the first is wrong', draft: [1, 2, 3], choices: [9, 2, 3, 4], accepted: 0, tokens: [9] },
    { what: 'one in the middle is wrong', draft: [1, 2, 3], choices: [1, 9, 3, 4], accepted: 1, tokens: [1, 9] },
    { what: 'the last is wrong', draft: [1, 2, 3], choices: [1, 2, 9, 4], accepted: 2, tokens: [1, 2, 9] },
    { what: 'a right token follows a wrong one: it is dropped', draft: [5, 2], choices: [1, 2, 3], accepted: 0, tokens: [1] },
  ])('a chain, where $what', ({ draft, choices, accepted, tokens }) => {
    const accepting = acceptDraft(chainOf(draft), (node) => choices[node + 1]!)
    expect({ accepted: accepting.path.length, tokens: accepting.tokens }).toEqual({ accepted, tokens })
  })

  it('yields, of a chain, the LLM’s choices up to one token past the common prefix', () => {
    const token = fc.integer({ min: 0, max: 2 })
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), fc.array(token, { minLength: 9, maxLength: 9 }), (draft, choices) => {
        const { path, tokens } = acceptDraft(chainOf(draft), (node) => choices[node + 1]!)
        expect(path).toEqual(path.map((_, at) => at))
        expect(tokens).toEqual(choices.slice(0, path.length + 1))
        expect(tokens.slice(0, path.length)).toEqual(draft.slice(0, path.length))
        if (path.length < draft.length) expect(draft[path.length]).not.toBe(choices[path.length])
      }),
    )
  })

  it('yields, of a tree, the longest path that equals the LLM’s choices, and its next token', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(10, 11, 20, 21, 30, 32), { minLength: 4, maxLength: 4 }), (answer) => {
        const { path, tokens } = acceptDraft(tree, following(tree, answer))
        expect(tokens).toEqual(answer.slice(0, path.length + 1))
        const longest = paths
          .filter((ranks) => ranks.every((rank, depth) => ranked[depth]![rank] === answer[depth]))
          .reduce((max, { length }) => Math.max(max, length), 0)
        expect(path.length).toBe(longest)
      }),
    )
  })
})
