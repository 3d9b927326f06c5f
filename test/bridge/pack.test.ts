import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type PackLimits, packStep, type Waiting } from '../../cloud-bridge/serving/pack.ts'

const limits: PackLimits = { tokenBudget: 512, slots: 16, smallTokens: 16, patience: 4 }

const sequences = Array.from({ length: 24 }, (_, id) => ({ id }))
const anyWaiting = () =>
  fc.array(
    fc.record({
      sequence: fc.constantFrom(...sequences),
      tokens: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 600 })),
      passedOver: fc.integer({ min: 0, max: 6 }),
    }),
    { maxLength: 40 },
  )
const pick = (waiting: readonly Waiting[], indices: readonly number[]) => indices.map((index) => waiting[index]!)

describe('a step', () => {
  it('stays within slots and tokens, except for one item that is larger alone', () => {
    fc.assert(
      fc.property(anyWaiting(), (waiting) => {
        const taken = pick(waiting, packStep(waiting, limits))
        expect(taken.length).toBeLessThanOrEqual(limits.slots)
        if (taken.length > 1) expect(taken.reduce((sum, item) => sum + item.tokens, 0)).toBeLessThanOrEqual(limits.tokenBudget)
      }),
    )
  })

  it('is empty only where nothing waits', () => {
    fc.assert(fc.property(anyWaiting(), (waiting) => packStep(waiting, limits).length > 0 === waiting.length > 0))
  })

  it('holds one item of a sequence, the oldest that waits', () => {
    fc.assert(
      fc.property(anyWaiting(), (waiting) => {
        const indices = packStep(waiting, limits)
        for (const index of indices) expect(waiting.findIndex((item) => item.sequence === waiting[index]!.sequence)).toBe(index)
      }),
    )
  })

  it('leaves out a decode only where slots or tokens ran out', () => {
    fc.assert(
      fc.property(anyWaiting(), (waiting) => {
        const indices = packStep(waiting, limits)
        const taken = pick(waiting, indices)
        const heads = waiting.map((item, i) => waiting.findIndex((other) => other.sequence === item.sequence) === i)
        const left = waiting.filter((item, i) => heads[i] && !indices.includes(i) && item.tokens <= limits.smallTokens)
        const aged = taken.filter((item) => item.passedOver >= limits.patience)
        const prompts = taken.filter((item) => item.tokens > limits.smallTokens && !aged.includes(item))
        // A prompt beside a decode left behind is only right when that decode did not fit.
        if (left.length > 0 && prompts.length > 0) {
          const before = taken.filter((item) => !prompts.includes(item)).reduce((sum, item) => sum + item.tokens, 0)
          for (const item of left) expect(before + item.tokens).toBeGreaterThan(limits.tokenBudget)
        }
      }),
    )
  })

  it.each<[string, [number, number][], number[]]>([
    [
      'decodes before the prompt that came first',
      [
        [400, 0],
        [1, 0],
        [4, 0],
      ],
      [0, 1, 2],
    ],
    [
      'a long prompt waits while decodes fill its place',
      [
        [512, 0],
        [1, 0],
        [4, 0],
      ],
      [1, 2],
    ],
    [
      'until it has waited long enough',
      [
        [512, 4],
        [1, 0],
        [4, 0],
      ],
      [0],
    ],
    [
      'a shorter prompt may go where the first does not fit',
      [
        [300, 0],
        [300, 0],
        [200, 0],
      ],
      [0, 2],
    ],
    [
      'an item over the budget goes alone',
      [
        [600, 0],
        [300, 0],
      ],
      [0],
    ],
  ])('%s', (_, items, expected) => {
    const waiting = items.map(([tokens, passedOver]) => ({ sequence: {}, tokens, passedOver }))
    expect(packStep(waiting, limits)).toEqual(expected)
  })

  it('takes every item within a bounded number of steps, whatever else arrives', () => {
    const arrivals = fc.array(fc.array(fc.integer({ min: 1, max: 512 }), { maxLength: 12 }), { minLength: 30, maxLength: 30 })
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 512 }), (rounds, tokens) => {
        const ours = { sequence: {}, tokens, passedOver: 0 }
        const arrive = (sizes: readonly number[]) => sizes.map((size) => ({ sequence: {}, tokens: size, passedOver: 0 }))
        let waiting: (Waiting & { passedOver: number })[] = [...arrive(rounds[0]!), ours]
        for (const sizes of rounds.slice(1)) {
          waiting.push(...arrive(sizes))
          const taken = new Set(pick(waiting, packStep(waiting, limits)))
          if (taken.has(ours)) return true
          waiting = waiting.filter((item) => !taken.has(item))
          for (const item of waiting) item.passedOver += 1
        }
        throw new Error('never served')
      }),
    )
  })
})
