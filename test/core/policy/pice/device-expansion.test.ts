import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  DeviceExpansion,
  type DeviceExpansionAction,
  type RequestedSketch,
} from '../../../../core/policy/pice/device-expansion.ts'
import type { SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

/** No gain by packing. */
const speed = (model: string, tpotS: number): SmallModelSpeed => ({
  ...{ model, loadS: 0, ttftS: 0, tpotS, parallel: [], ability: undefined },
})
const models = [speed('small', 0.01), speed('large', 0.1)]
const sketch = (fields: Partial<RequestedSketch> = {}): RequestedSketch => ({
  ...{ words: [2, 2, 4], expectedTokens: 80, sentences: [0, 1, 2], candidates: 1, budgetMs: Number.POSITIVE_INFINITY },
  ...fields,
})
const runOf = (sketches: readonly RequestedSketch[], fields: object = {}) =>
  new DeviceExpansion({ sketches, models, current: 'small', isQueueEmpty: true, maxSequences: 16, waitedMs: 0, ...fields })
const begin = (run: DeviceExpansion, nowMs = 0) => run.handle({ kind: 'begin' }, nowMs)[0]!
const modelOf = (action: DeviceExpansionAction) => action.kind === 'expand' && action.model

describe('a job on its device', () => {
  it('uses a model that keeps the budget that is left: what the job has waited counts', () => {
    // 80 tokens: 0.8 s, or 8.
    const sketches = [sketch({ budgetMs: 9_000 })]
    expect(modelOf(begin(runOf(sketches)))).toBe('large')
    expect(modelOf(begin(runOf(sketches, { waitedMs: 2_000 })))).toBe('small')
    expect(modelOf(begin(runOf([sketch()], { waitedMs: 1e9 })))).toBe('large')
  })

  it('keeps to its model while other jobs wait', () => {
    expect(modelOf(begin(runOf([sketch({ budgetMs: 9_000 })], { isQueueEmpty: false })))).toBe('small')
  })

  it('leaves out what earlier attempts have written, and keeps each candidate once', () => {
    const run = runOf([sketch()])
    const written = { kind: 'sentence', sketch: 0, sentence: 1, candidate: 0 } as const
    expect(run.handle(written, 0)).toEqual([{ kind: 'keep' }])
    expect(run.handle(written, 0)).toEqual([])
    const action = begin(run)
    const sentences = action.kind === 'expand' && action.work.flatMap(({ groups }) => groups.flatMap((group) => group.sentences))
    expect(sentences).toEqual([0, 2])
    for (const sentence of [0, 2]) run.handle({ ...written, sentence }, 1)
    expect(run.handle({ kind: 'expanded' }, 2)).toEqual([{ kind: 'done' }])
    expect(begin(run)).toEqual({ kind: 'done' })
  })

  it('asks for no more candidates than each sketch does', () => {
    const action = begin(runOf([sketch({ candidates: 3 }), sketch()], { models: models.slice(0, 1) }))
    const candidates =
      action.kind === 'expand' && action.work.map(({ groups }) => [...new Set(groups.map(({ candidate }) => candidate))])
    expect(candidates).toEqual([[0, 1, 2], [0]])
  })

  it('replaces another model of the ensemble that fails by samples of the first, which must not fail', () => {
    const run = runOf([sketch({ candidates: 2 })])
    expect(modelOf(begin(run))).toBe('large')
    for (const sentence of [0, 1, 2]) run.handle({ kind: 'sentence', sketch: 0, sentence, candidate: 0 }, 0)
    expect(modelOf(run.handle({ kind: 'expanded' }, 0)[0]!)).toBe('small')
    const [instead] = run.handle({ kind: 'failed' }, 0)
    expect(instead).toMatchObject({ model: 'large', work: [{ sketch: 0 }] })
    const groups = instead?.kind === 'expand' ? instead.work.flatMap((each) => each.groups) : []
    expect(groups.map(({ candidate, sample }) => [candidate, sample])).toEqual(groups.map(() => [1, 1]))
    expect(run.handle({ kind: 'failed' }, 0)).toEqual([{ kind: 'fail' }])
  })

  it('expands every candidate once, whichever models fail and whatever was written before', () => {
    const sketches = fc.array(
      fc.record({
        lines: fc.integer({ min: 1, max: 6 }),
        candidates: fc.integer({ min: 1, max: 4 }),
        budgetMs: fc.integer({ min: 1, max: 2e4 }),
      }),
      { minLength: 1, maxLength: 4 },
    )
    fc.assert(
      fc.property(sketches, fc.infiniteStream(fc.boolean()), fc.infiniteStream(fc.nat(500)), (shapes, coins, times) => {
        const asked = shapes.map(({ lines, candidates, budgetMs }) =>
          sketch({ words: Array(lines).fill(3), sentences: Array.from({ length: lines }, (_, at) => at), candidates, budgetMs }),
        )
        const run = runOf(asked)
        const kept = new Set<string>()
        let nowMs = 0
        const write = (place: { sketch: number; sentence: number; candidate: number }) => {
          nowMs += times.next().value
          const isNew = run.handle({ kind: 'sentence', ...place }, nowMs).length > 0
          const key = JSON.stringify(place)
          if (isNew === kept.has(key)) return false
          kept.add(key)
          return true
        }
        let [action] = run.handle({ kind: 'begin' }, nowMs)
        for (let turns = 0; action?.kind === 'expand'; turns += 1) {
          if (turns > 10) return false
          const isBroken = turns > 0 && coins.next().value
          for (const { sketch, groups } of action.work)
            for (const { candidate, sentences } of groups)
              for (const sentence of sentences)
                if (!(isBroken && coins.next().value) && !write({ sketch, sentence, candidate })) return false
          ;[action] = run.handle({ kind: isBroken ? 'failed' : 'expanded' }, nowMs)
        }
        const count = asked.reduce((sum, { sentences, candidates }) => sum + sentences.length * candidates, 0)
        return action?.kind === 'fail' || (action?.kind === 'done' && kept.size === count)
      }),
    )
  })
})
