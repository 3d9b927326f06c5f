import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { acceptDraft } from '../../../core/policy/hat/accept.ts'

const token = fc.integer({ min: 0, max: 3 })
const draftAndChoices = fc
  .array(token, { maxLength: 12 })
  .chain((draft) => fc.tuple(fc.constant(draft), fc.array(token, { minLength: draft.length + 1, maxLength: draft.length + 1 })))

describe('accepting a draft', () => {
  it.each([
    { what: 'nothing was drafted', draft: [], choices: [7], accepted: 0, tokens: [7] },
    {
      what: 'all of it is right: the bonus comes on top',
      draft: [1, 2, 3],
      choices: [1, 2, 3, 4],
      accepted: 3,
      tokens: [1, 2, 3, 4],
    },
    { what: 'the first is wrong', draft: [1, 2, 3], choices: [9, 2, 3, 4], accepted: 0, tokens: [9] },
    { what: 'one in the middle is wrong', draft: [1, 2, 3], choices: [1, 9, 3, 4], accepted: 1, tokens: [1, 9] },
    { what: 'the last is wrong', draft: [1, 2, 3], choices: [1, 2, 9, 4], accepted: 2, tokens: [1, 2, 9] },
    { what: 'a right token follows a wrong one: it is lost', draft: [5, 2], choices: [1, 2, 3], accepted: 0, tokens: [1] },
  ])('$what', ({ draft, choices, accepted, tokens }) => {
    expect(acceptDraft(draft, choices)).toEqual({ accepted, tokens })
  })

  it('yields a prefix of what the LLM chose, one longer than what it shares with the draft', () => {
    fc.assert(
      fc.property(draftAndChoices, ([draft, choices]) => {
        const { accepted, tokens } = acceptDraft(draft, choices)
        expect(tokens).toEqual(choices.slice(0, accepted + 1))
        expect(tokens.slice(0, accepted)).toEqual(draft.slice(0, accepted))
        if (accepted < draft.length) expect(draft[accepted]).not.toBe(choices[accepted])
      }),
    )
  })

  it('refuses a number of choices that does not fit', () => {
    expect(() => acceptDraft([1, 2], [1, 2])).toThrow(RangeError)
  })
})
