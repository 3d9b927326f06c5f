import { describe, expect, it } from 'vitest'
import { hasRoom, termsOf } from '../../../../core/policy/pice/dispatch-rules.ts'
import { completionS, expansionTime } from '../../../../core/policy/pice/expansion-deadline.ts'
import { chooseSources, groupSentences, type SketchShape, sentenceTokens } from '../../../../core/policy/pice/expansion-groups.ts'
import type { SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

const speed = (model: string, tpotS: number): SmallModelSpeed => ({
  model,
  loadS: 0,
  ttftS: 0.1,
  tpotS,
  parallel: [
    [4, 4],
    [8, 4],
  ],
  ability: undefined,
})
const [small, large] = [speed('small', 0.01), speed('large', 0.1)]
const sketch: SketchShape = { words: [2, 4, 2, 2], expectedTokens: 100, sentences: [0, 1, 2, 3], candidates: 1, budgetS: 100 }
const terms = { models: [small, large], current: 'small', isQueueEmpty: true, maxSequences: 16 }

describe('what a device makes of a sketch', () => {
  it('expects of each line its share of the words', () => {
    expect(sentenceTokens(sketch)).toEqual([20, 40, 20, 20])
  })

  it('counts on no more sequences at once than the device decodes', () => {
    const modelOf = (maxSequences: number) => chooseSources([{ ...sketch, budgetS: 5 }], { ...terms, maxSequences })[0]!.model
    // One after the other, the larger model takes 10 s.
    expect([modelOf(16), modelOf(1)]).toEqual(['large', 'small'])
  })

  it('groups what is missing of a sketch as if that were all of it', () => {
    const words = [40, 1, 30, 2, 9, 3, 5, 1]
    const missing = [1, 3, 4, 5, 6, 7]
    const part = missing.map((at) => words[at]!)
    const tokensOf = (own: readonly number[]) => 4 * own.reduce((sum, each) => sum + each, 0)
    const groupsOf = (own: readonly number[], lines: readonly number[]) =>
      groupSentences({ words: own, expectedTokens: tokensOf(own), budgetS: 100 }, lines, small, 2)
    const whole = groupsOf(
      part,
      part.map((_, at) => at),
    )
    expect(groupsOf(words, missing)).toEqual(whole.map((group) => group.map((at) => missing[at]!)))
  })

  it('uses the larger model if it keeps the least budget of the job, and no other job waits', () => {
    const modelOf = (budgets: readonly number[], more = {}) =>
      chooseSources(
        budgets.map((budgetS) => ({ ...sketch, budgetS })),
        { ...terms, ...more },
      )[0]!.model
    // 100 tokens in four sequences: 0.1 + 99 · 0.1 / 4 = 2.6 s, two of them 0.1 + 199 · 0.1 / 4 = 5.1 s.
    expect(modelOf([3])).toBe('large')
    expect(modelOf([3, 3])).toBe('small')
    expect(modelOf([2])).toBe('small')
    expect(modelOf([6, 6])).toBe('large')
    expect(modelOf([6, 3])).toBe('small')
    expect(modelOf([3], { isQueueEmpty: false })).toBe('small')
  })

  it('counts only the lines that are asked for', () => {
    const two = { ...sketch, sentences: [0, 2], budgetS: 2.2 }
    // 40 tokens in two sequences of speed-up 2: 0.1 + 39 · 0.1 / 2 = 2.05 s.
    expect(chooseSources([two], terms)[0]!.model).toBe('large')
    expect(chooseSources([{ ...two, sentences: [0, 1, 2] }], terms)[0]!.model).toBe('small')
  })

  it('has as many candidates as the sketch that asks for most', () => {
    expect(chooseSources([sketch, { ...sketch, candidates: 3 }], terms)).toHaveLength(3)
  })

  it('groups missing lines, no more groups than sequences, every line once', () => {
    const groups = groupSentences(sketch, [0, 2, 3], small, 2)
    expect(groups.flat().sort()).toEqual([0, 2, 3])
    expect(groups.length).toBeLessThanOrEqual(2)
    expect(groupSentences(sketch, [0, 1, 2, 3], small, 16)).toHaveLength(4)
    expect(groupSentences(sketch, [], small, 16)).toEqual([])
  })
})

describe('the time that devices are given for a sketch', () => {
  const unknown = { speed: undefined, sentences: 8, tokens: 160 }
  /** Eight sentences of 20 tokens take 0.5 + 19 · 1.5 · 0.1 = 3.35 s. */
  const idle = { ...unknown, speed: { waitS: 0, ttftS: 0.5, tpotS: 0.1 } }

  it('is what is left of the full answer; where no speed is known, the deadline is twice that or the prediction', () => {
    expect(expansionTime({ fullS: 30, predictedS: 20 }, 10_000, 60_000, unknown)).toEqual({
      ...{ budgetMs: 20_000, deadlineMs: 40_000 },
    })
    // Where others wait: the budget is shorter, the deadline is not.
    expect(expansionTime({ fullS: 30, predictedS: 20, withinS: 5 }, 10_000, 60_000, unknown)).toEqual({
      budgetMs: 5_000,
      deadlineMs: 40_000,
    })
    // A sketch that the client asked for may take longer than the LLM alone.
    expect(expansionTime({ fullS: 30, predictedS: 40 }, 10_000, 90_000, idle)).toEqual({ budgetMs: 20_000, deadlineMs: 60_000 })
    expect(expansionTime({ fullS: 30, predictedS: 40 }, 10_000, 50_000, idle).deadlineMs).toBe(50_000)
    expect(expansionTime({ fullS: 3, predictedS: null }, 10_000, 60_000, idle)).toEqual({ budgetMs: 1, deadlineMs: 4_000 })
  })

  it('ends in time for the LLM to write what is missing by f(l)', () => {
    const deadlineMs = (predictedS: number, waitS = 0) =>
      expansionTime({ fullS: 30, predictedS }, 10_000, 60_000, { ...idle, speed: { ...idle.speed, waitS } }).deadlineMs
    expect(deadlineMs(20)).toBeCloseTo(20_000 - 3_350)
    expect(deadlineMs(28)).toBeCloseTo(20_000 - 3_350)
    const late = { fullS: 30, predictedS: 28, expansionS: 18 }
    expect(expansionTime(late, 10_000, 60_000, idle).deadlineMs).toBeCloseTo(18_000)
    // Answers wait for the LLM, or it has no place: devices are waited for.
    expect(deadlineMs(28, 5)).toBe(40_000)
    const full = { ...idle, speed: { ...idle.speed, slots: 4, running: 3 } }
    expect(expansionTime({ fullS: 30, predictedS: 28 }, 10_000, 60_000, full).deadlineMs).toBe(40_000)
    expect(completionS(idle.speed, { sentences: 32, tokens: 640 })).toBeCloseTo(6.7)
  })
})

describe('the queue of sketches', () => {
  it('has room for each idle device and so many more for each device', () => {
    expect(hasRoom(3, 0, 4, 1)).toBe(true)
    expect(hasRoom(4, 0, 4, 1)).toBe(false)
    expect(hasRoom(5, 2, 4, 1)).toBe(true)
    expect(hasRoom(0, 0, 4, 0)).toBe(false)
  })

  it('is predicted by the mean length of its sentences and the most candidates', () => {
    const waiting = [
      { expectedTokens: 100, sentences: 4, candidates: 1, promptTokens: 100 },
      { expectedTokens: 20, sentences: 2, candidates: 3, promptTokens: 300 },
    ]
    expect(termsOf(waiting)).toEqual({ tokensPerSentence: 20, candidates: 3, promptTokens: 200 })
  })
})
