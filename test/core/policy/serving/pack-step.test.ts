import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type PackLimits, packStep, type Taken, type Waiting } from '../../../../core/policy/serving/pack-step.ts'

const limits: PackLimits = { tokenBudget: 512, promptTokens: 128, slots: 16, smallTokens: 16, patience: 4 }

const sequences = Array.from({ length: 24 }, (_, id) => ({ id }))
const anyWaiting = () =>
  fc.array(
    fc.record({
      sequence: fc.constantFrom(...sequences),
      tokens: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 600 })),
      prompt: fc.boolean(),
      passedOver: fc.integer({ min: 0, max: 6 }),
    }),
    { maxLength: 40 },
  )
const pick = (waiting: readonly Waiting[], taken: readonly Taken[]) => taken.map(({ index }) => waiting[index]!)
const isPrompt = ({ prompt, tokens }: Waiting) => prompt || tokens > limits.smallTokens
const tokensOf = (taken: readonly Taken[]) => taken.reduce((sum, { tokens }) => sum + tokens, 0)

describe('a step', () => {
  it('stays within slots and tokens, and takes of an item no more than waits', () => {
    fc.assert(
      fc.property(anyWaiting(), fc.boolean(), (waiting, decoding) => {
        const taken = packStep(waiting, limits, decoding)
        expect(taken.length).toBeLessThanOrEqual(limits.slots)
        expect(tokensOf(taken)).toBeLessThanOrEqual(limits.tokenBudget)
        for (const { index, tokens } of taken) {
          expect(tokens).toBeGreaterThan(0)
          expect(tokens).toBeLessThanOrEqual(waiting[index]!.tokens)
        }
      }),
    )
  })

  it('holds no more of prompts than may make a decode wait, where anybody decodes', () => {
    fc.assert(
      fc.property(anyWaiting(), fc.boolean(), (waiting, decoding) => {
        const taken = packStep(waiting, limits, decoding)
        const shared = decoding || pick(waiting, taken).some((item) => !isPrompt(item))
        const prompts = taken.filter(({ index }) => isPrompt(waiting[index]!))
        if (shared) expect(tokensOf(prompts)).toBeLessThanOrEqual(limits.promptTokens)
      }),
    )
  })

  it('never cuts a decode in two', () => {
    fc.assert(
      fc.property(anyWaiting(), fc.boolean(), (waiting, decoding) => {
        for (const { index, tokens } of packStep(waiting, limits, decoding))
          if (!isPrompt(waiting[index]!)) expect(tokens).toBe(waiting[index]!.tokens)
      }),
    )
  })

  it('is empty only where nothing waits', () => {
    fc.assert(fc.property(anyWaiting(), (waiting) => packStep(waiting, limits, false).length > 0 === waiting.length > 0))
  })

  it('holds one item of a sequence, the oldest that waits', () => {
    fc.assert(
      fc.property(anyWaiting(), (waiting) => {
        for (const { index } of packStep(waiting, limits, false))
          expect(waiting.findIndex((item) => item.sequence === waiting[index]!.sequence)).toBe(index)
      }),
    )
  })

  it('leaves out a decode only where slots or tokens ran out', () => {
    fc.assert(
      fc.property(anyWaiting(), (waiting) => {
        const step = packStep(waiting, limits, false)
        const indices = step.map(({ index }) => index)
        const taken = pick(waiting, step)
        const heads = waiting.map((item, i) => waiting.findIndex((other) => other.sequence === item.sequence) === i)
        const left = waiting.filter((item, i) => heads[i] && !indices.includes(i) && !isPrompt(item))
        const aged = taken.filter((item) => item.passedOver >= limits.patience)
        const prompts = taken.filter((item) => isPrompt(item) && !aged.includes(item))
        // A prompt beside a decode left behind is only right when that decode did not fit.
        if (left.length > 0 && prompts.length > 0) {
          const before = taken.filter((item) => !prompts.includes(item)).reduce((sum, item) => sum + item.tokens, 0)
          for (const item of left) expect(before + item.tokens).toBeGreaterThan(limits.tokenBudget)
        }
      }),
    )
  })

  it.each<[string, [number, number][], [number, number][]]>([
    [
      'decodes beside the first of the prompt that came before them',
      [
        [400, 0],
        [1, 0],
        [4, 0],
      ],
      [
        [0, 128],
        [1, 1],
        [2, 4],
      ],
    ],
    ['a prompt whole where nobody decodes', [[400, 0]], [[0, 400]]],
    [
      'two prompts, the second in part',
      [
        [300, 0],
        [300, 0],
      ],
      [
        [0, 300],
        [1, 212],
      ],
    ],
    [
      'not a sliver of a third',
      [
        [300, 0],
        [200, 0],
        [100, 0],
      ],
      [
        [0, 300],
        [1, 200],
      ],
    ],
    [
      'the prompt that has waited long enough before one that came first',
      [
        [512, 0],
        [512, 4],
        [1, 0],
      ],
      [
        [1, 128],
        [2, 1],
      ],
    ],
  ])('%s', (_, items, expected) => {
    const waiting = items.map(([tokens, passedOver]) => ({ sequence: {}, tokens, prompt: tokens > 16, passedOver }))
    expect(packStep(waiting, limits, false)).toEqual(expected.map(([index, tokens]) => ({ index, tokens })))
  })

  it('takes every item within a bounded number of steps, whatever else arrives', () => {
    const arrivals = fc.array(fc.array(fc.integer({ min: 1, max: 512 }), { maxLength: 12 }), { minLength: 80, maxLength: 80 })
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 512 }), (rounds, tokens) => {
        const ours = { sequence: {}, tokens, prompt: tokens > 16, passedOver: 0 }
        const arrive = (sizes: readonly number[]) =>
          sizes.map((size) => ({ sequence: {}, tokens: size, prompt: size > 16, passedOver: 0 }))
        let waiting: { sequence: object; tokens: number; prompt: boolean; passedOver: number }[] = [...arrive(rounds[0]!), ours]
        for (const sizes of rounds.slice(1)) {
          waiting.push(...arrive(sizes))
          const step = packStep(waiting, limits, true)
          const taken = new Set(pick(waiting, step))
          for (const item of waiting) if (!taken.has(item)) item.passedOver += 1
          for (const { index, tokens } of step) waiting[index]!.tokens -= tokens
          if (ours.tokens === 0) return true
          // What has a rest goes to the front, as in the loop.
          const rests = [...taken].filter((item) => item.tokens > 0)
          waiting = [...rests, ...waiting.filter((item) => !taken.has(item))]
        }
        throw new Error('never served')
      }),
    )
  })
})
