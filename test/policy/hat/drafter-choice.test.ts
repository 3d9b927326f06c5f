import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DrafterChoice } from '../../../core/policy/hat/drafter-choice.ts'

/** Plays rounds of fixed tokens and seconds per drafter. @returns the names used, in order */
function play(choice: DrafterChoice, of: Record<string, [tokens: number, seconds: number]>, rounds: number): string[] {
  return Array.from({ length: rounds }, () => {
    const { name } = choice
    choice.record(...of[name]!)
    return name
  })
}

describe('the choice of a drafter', () => {
  it('begins with the first, then tries each other once', () => {
    const choice = new DrafterChoice(['adapter', 'lookup', 'none'])
    const used = play(choice, { adapter: [3, 0.1], lookup: [1, 0.1], none: [1, 0.08] }, 7)
    expect(used).toEqual(['adapter', 'adapter', 'adapter', 'adapter', 'lookup', 'none', 'adapter'])
    expect(choice.best).toBe('adapter')
  })

  it('switches drafting off where it loses, and tries it again now and then', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    const used = play(choice, { adapter: [1.1, 0.3], none: [1, 0.1] }, 40)
    expect(choice.best).toBe('none')
    expect(used.slice(5).filter((name) => name === 'adapter')).toHaveLength(2)
    expect(choice.records()).toEqual([
      { name: 'adapter', rounds: 6, tokensPerS: expect.closeTo(1.1 / 0.3) },
      { name: 'none', rounds: 34, tokensPerS: expect.closeTo(10) },
    ])
  })

  it('comes back to a drafter that has become worth it', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    play(choice, { adapter: [1, 0.3], none: [1, 0.1] }, 20)
    expect(choice.best).toBe('none')
    play(choice, { adapter: [6, 0.15], none: [1, 0.1] }, 60)
    expect(choice.best).toBe('adapter')
  })

  it('is not moved by a difference that is noise', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    play(choice, { adapter: [2, 0.2], none: [1.02, 0.1] }, 40)
    expect(choice.best).toBe('adapter')
  })

  it('spends nearly all rounds on the fastest, whatever the rates', () => {
    const rate = fc.tuple(fc.integer({ min: 1, max: 8 }), fc.double({ min: 0.01, max: 1, noNaN: true }))
    fc.assert(
      fc.property(rate, rate, rate, (a, b, c) => {
        const of = { a, b, c }
        const choice = new DrafterChoice(['a', 'b', 'c'])
        const used = play(choice, of, 200)
        const speed = ([tokens, seconds]: [number, number]) => tokens / seconds
        const fastest = Math.max(...Object.values(of).map(speed))
        const good = used.slice(10).filter((name) => speed(of[name as keyof typeof of]) * 1.06 >= fastest)
        expect(good.length).toBeGreaterThan(0.9 * 190)
      }),
    )
  })

  it('needs something to choose from', () => {
    expect(() => new DrafterChoice([])).toThrow(RangeError)
  })
})
