import { describe, expect, it } from 'vitest'
import {
  type AcceptanceRun,
  acceptLength,
  acceptLengthsByPosition,
  isLooping,
  ratesByDraftPosition,
  runOf,
} from '../../../lab/bench/acceptance/figures.ts'

const of = { drafter: 'adapter', id: 'a', task: 'story', promptTokens: 120, answerTokens: 10, looping: false } as const
/** 9 tokens after the first, in three rounds: 3, 5 and the last one. */
const run: AcceptanceRun = runOf(of, [
  { drafted: 3, longest: 3, accepted: 2 },
  { drafted: 4, longest: 4, accepted: 4 },
  // An end of text was drafted and accepted: no bonus follows it.
  { drafted: 1, longest: 1, accepted: 1 },
])
const undrafted: AcceptanceRun = runOf({ ...of, id: 'b', answerTokens: 1 }, [])

describe('the figures of acceptance', () => {
  it('count the tokens that each verification gave, the bonus included', () => {
    expect(acceptLength([run])).toBe(3)
    expect(acceptLength([run, undrafted])).toBe(3)
    expect(acceptLength([undrafted])).toBeNull()
    expect(run).toMatchObject({ drafted: 8, accepted: 7, rounds: '3/2 4/4 1/1' })
  })

  it('take the rate at each place of a draft from the drafts that reach it', () => {
    expect(ratesByDraftPosition([run])).toEqual([
      { position: 1, rate: 1, drafts: 3 },
      { position: 2, rate: 1, drafts: 2 },
      { position: 3, rate: 0.5, drafts: 2 },
      { position: 4, rate: 1, drafts: 1 },
    ])
    expect(ratesByDraftPosition([undrafted])).toEqual([])
  })

  it('place a round where its pending token stands', () => {
    expect(acceptLengthsByPosition([run])).toEqual([
      { from: 0, to: 128, acceptLength: 4, rounds: 2 },
      { from: 128, to: 256, acceptLength: 1, rounds: 1 },
    ])
  })

  it.each([
    { what: 'too short to repeat itself', answer: [1, 1, 1], looping: false },
    { what: 'one token all along', answer: Array.from({ length: 20 }, () => 5), looping: true },
    { what: 'a phrase said three times', answer: [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5], looping: true },
    { what: 'a phrase said twice in a longer text', answer: [...Array(20).keys(), 0, 1, 2, 3, 4, 5], looping: false },
  ])('call an answer looping where most of its 4-grams come again: $what', ({ answer, looping }) => {
    expect(isLooping(answer)).toBe(looping)
  })
})
