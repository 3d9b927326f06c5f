import { describe, expect, it } from 'vitest'
import { chooseSources, workOf } from '../../../agent/pice/plan-expansion.ts'
import type { SmallModelSpeed } from '../../../core/policy/pice/state.ts'
import { ExpandInput } from '../../../core/protocol/jobs.ts'

/** 10 ms per token, and no gain by packing. */
const speed = (model: string, tpotS = 0.01): SmallModelSpeed => ({
  model,
  loadS: 0,
  ttftS: 0,
  tpotS,
  parallel: [],
  ability: undefined,
})
const terms = { models: [speed('small'), speed('large', 0.1)], current: 'small', isQueueEmpty: true, maxSequences: 16, spentS: 0 }

const input = (...sketches: object[]) =>
  ExpandInput.parse({
    sketches: sketches.map((sketch) => ({
      prompt: 'Why?',
      sketch: ['one two', 'one two', 'one two three four'],
      expectedTokens: 80,
      ...sketch,
    })),
  })
const workFor = (given: ExpandInput, isMissing = (_: unknown) => true) =>
  workOf(given, [{ model: 'small', sample: 0 }], speed('small'), terms, isMissing, () => 7)

describe('the model of a job', () => {
  it('is one that keeps the budget that is left: what the job has waited counts', () => {
    // 80 tokens: 0.8 s, or 8.
    const given = input({ budgetMs: 9_000 })
    expect(chooseSources(given, terms)).toEqual([{ model: 'large', sample: 0 }])
    expect(chooseSources(given, { ...terms, spentS: 2 })).toEqual([{ model: 'small', sample: 0 }])
    expect(chooseSources(input({}), { ...terms, spentS: 1e6 })).toEqual([{ model: 'large', sample: 0 }])
  })
})

describe('the work of a model', () => {
  it('is each missing line once, with a bound by the share of its words', () => {
    const [work] = workFor(input({}), (at) => (at as { sentence: number }).sentence !== 1)
    expect(work!.groups.flatMap(({ sentences }) => sentences).sort()).toEqual([0, 2])
    // 20, 20 and 40 of 80 tokens.
    expect(work!.lengths.map(({ max }) => max - 16)).toEqual([60, 60, 120])
    expect(workFor(input({}), () => false)).toEqual([])
  })

  it('has for each sketch no more candidates than it asks for', () => {
    const sources = [0, 1, 2].map((sample) => ({ model: 'small', sample }))
    const given = input({ candidates: 3 }, { candidates: 1 })
    const work = workOf(
      given,
      sources,
      speed('small'),
      terms,
      () => true,
      () => 7,
    )
    const candidates = work.map(({ groups }) => [...new Set(groups.map(({ candidate }) => candidate))])
    expect(candidates).toEqual([[0, 1, 2], [0]])
  })

  it('draws other noise in each of its sequences', () => {
    const sources = [0, 1].map((sample) => ({ model: 'small', sample }))
    const [work] = workOf(
      input({ candidates: 2, seed: 5 }),
      sources,
      speed('small'),
      terms,
      () => true,
      () => 7,
    )
    const seeds = work!.groups.map(({ sampling }) => sampling.seed)
    expect(new Set(seeds).size).toBe(seeds.length)
  })
})
