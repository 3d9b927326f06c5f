import { describe, expect, it } from 'vitest'
import { acceptanceBench } from '../../../lab/bench/acceptance/bench.ts'
import {
  type AcceptanceRun,
  acceptLength,
  acceptLengthsByPosition,
  ratesByDraftPosition,
  runOf,
} from '../../../lab/bench/acceptance/report.ts'
import { isLooping } from '../../../lab/bench/looping.ts'

const of = { drafter: 'adapter', id: 'a', task: 'story', promptTokens: 120, answerTokens: 10, looping: false } as const
/** 9 tokens after the first, in three rounds: 3, 5 and the last one. */
const run: AcceptanceRun = runOf(of, [
  { drafted: 3, longest: 3, accepted: 2 },
  { drafted: 4, longest: 4, accepted: 4 },
  // The accepted draft is an end-of-text token: no bonus token follows it.
  { drafted: 1, longest: 1, accepted: 1 },
])
const undrafted: AcceptanceRun = runOf({ ...of, id: 'b', answerTokens: 1 }, [])

describe('the figures of bench acceptance', () => {
  it('count the tokens of each verification, bonus included', () => {
    expect(acceptLength([run])).toBe(3)
    expect(acceptLength([run, undrafted])).toBe(3)
    expect(acceptLength([undrafted])).toBeNull()
    expect(run).toMatchObject({ drafted: 8, accepted: 7, rounds: '3/2 4/4 1/1' })
    expect(acceptanceBench.report.keptRuns!({ bench: '', conditions: {}, summary: {}, runs: [run] })).toMatchObject([
      { verifications: 3 },
    ])
  })

  it('take the acceptance rate at a draft position from the drafts that reach it', () => {
    expect(ratesByDraftPosition([run])).toEqual([
      { position: 1, rate: 1, drafts: 3 },
      { position: 2, rate: 1, drafts: 2 },
      { position: 3, rate: 0.5, drafts: 2 },
      { position: 4, rate: 1, drafts: 1 },
    ])
    expect(ratesByDraftPosition([undrafted])).toEqual([])
  })

  it('assign a round to the position of its first token', () => {
    expect(acceptLengthsByPosition([run])).toEqual([
      { from: 0, to: 128, acceptLength: 4, rounds: 2 },
      { from: 128, to: 256, acceptLength: 1, rounds: 1 },
    ])
  })

  it.each([
    { what: 'too short for a 4-gram', answer: [1, 1, 1], looping: false },
    { what: 'a single token repeated', answer: Array.from({ length: 20 }, () => 5), looping: true },
    { what: 'a phrase repeated three times', answer: [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5], looping: true },
    { what: 'a phrase repeated once in a longer text', answer: [...Array(20).keys(), 0, 1, 2, 3, 4, 5], looping: false },
  ])('call an answer looping if most of its 4-grams are repeated: $what', ({ answer, looping }) => {
    expect(isLooping(answer)).toBe(looping)
  })
})
