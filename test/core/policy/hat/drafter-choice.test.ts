import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DrafterChoice } from '../../../../core/policy/hat/drafter-choice.ts'

/** Plays rounds of fixed tokens and seconds per drafter. @returns the names used, in order */
function play(choice: DrafterChoice, of: Record<string, [tokens: number, seconds: number]>, rounds: number): string[] {
  return Array.from({ length: rounds }, () => {
    const { name } = choice
    choice.record(...of[name]!)
    return name
  })
}

describe('the choice of a drafter', () => {
  it('begins with the first, then tries each other, two rounds each', () => {
    const choice = new DrafterChoice(['adapter', 'lookup', 'none'])
    const used = play(choice, { adapter: [3, 0.1], lookup: [1, 0.1], none: [1, 0.08] }, 9)
    expect(used).toEqual([...Array(4).fill('adapter'), 'lookup', 'lookup', 'none', 'none', 'adapter'])
    expect(choice.best).toBe('adapter')
  })

  it('switches drafting off if it is slower, and tries it again now and then', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    const used = play(choice, { adapter: [1.1, 0.3], none: [1, 0.1] }, 40)
    expect(choice.best).toBe('none')
    expect(used.slice(6).filter((name) => name === 'adapter')).toHaveLength(2)
    expect(choice.records()).toEqual([
      { name: 'adapter', rounds: 6, tokensPerS: expect.closeTo(1.1 / 0.3) },
      { name: 'none', rounds: 34, tokensPerS: expect.closeTo(10) },
    ])
  })

  it('returns to a drafter that has become faster', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    play(choice, { adapter: [1, 0.3], none: [1, 0.1] }, 20)
    expect(choice.best).toBe('none')
    play(choice, { adapter: [6, 0.15], none: [1, 0.1] }, 120)
    expect(choice.best).toBe('adapter')
  })

  it('does not change because of noise', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    play(choice, { adapter: [2, 0.2], none: [1.02, 0.1] }, 40)
    expect(choice.best).toBe('adapter')
  })

  it('tries a drafter less often the more often it was slower', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    const used = play(choice, { adapter: [3, 0.1], none: [1, 0.1] }, 600)
    const trials = used.flatMap((name, at) => (name === 'none' && used[at - 1] !== 'none' ? [at] : []))
    const waits = trials.slice(1).map((at, i) => at - trials[i]!)
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits)
    expect(waits.at(-1)).toBeGreaterThan(10 * waits[0]!)
    expect(waits.at(-1)).toBeLessThan(300)
  })

  it('begins a session with the measurements of the session before', () => {
    const of: Record<string, [number, number]> = { adapter: [1, 0.3], lookup: [2, 0.2], none: [1, 0.2] }
    const names = Object.keys(of)
    const first = new DrafterChoice(names)
    play(first, of, 40)
    expect(first.best).toBe('lookup')
    const second = new DrafterChoice(names, first)
    expect(play(second, of, 4).filter((name) => name === 'lookup').length).toBeGreaterThan(1)
    expect(second.records().reduce((sum, { rounds }) => sum + rounds, 0)).toBe(4)
    expect(first.records().reduce((sum, { rounds }) => sum + rounds, 0)).toBe(40)
    play(second, { ...of, adapter: [6, 0.2] }, 300)
    expect(second.best).toBe('adapter')
  })

  it('measures every drafter even if sessions end during a trial', () => {
    const of: Record<string, [number, number]> = { adapter: [2, 0.1], none: [1, 0.2] }
    let before: DrafterChoice | undefined
    const used: string[] = []
    for (let session = 0; session < 100; session++) {
      const choice: DrafterChoice = new DrafterChoice(Object.keys(of), before)
      used.push(...play(choice, of, 2))
      before = choice
    }
    expect(before?.records().map(({ tokensPerS }) => tokensPerS)).toEqual([expect.closeTo(20), expect.closeTo(5)])
    expect(used.filter((name) => name === 'adapter').length).toBeGreaterThan(160)
  })

  it('tolerates one slow round', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    const of: Record<string, [number, number]> = { adapter: [3, 0.1], none: [1, 0.08] }
    play(choice, of, 10)
    expect(choice.name).toBe('adapter')
    choice.record(3, 20)
    const used = play(choice, of, 40)
    expect(used.filter((name) => name === 'adapter').length).toBeGreaterThan(25)
    expect(choice.best).toBe('adapter')
  })

  it('does not measure the round in which a drafter catches up', () => {
    const choice = new DrafterChoice(['adapter', 'none'])
    let before = 'adapter'
    for (let round = 0; round < 100; round++) {
      const { name } = choice
      // A change of drafter is slow.
      const [tokens, seconds] = name === 'adapter' ? [3, 0.1] : [1, 0.08]
      choice.record(tokens!, name === before ? seconds! : 5)
      before = name
    }
    expect(choice.records().map(({ tokensPerS }) => tokensPerS)).toEqual([expect.closeTo(30), expect.closeTo(12.5)])
  })

  it('spends nearly all rounds on the fastest, whatever the rates', () => {
    const rate = fc.tuple(fc.integer({ min: 1, max: 8 }), fc.double({ min: 0.01, max: 1, noNaN: true }))
    fc.assert(
      fc.property(rate, rate, rate, (a, b, c) => {
        const of = { a, b, c }
        const choice = new DrafterChoice(['a', 'b', 'c'])
        const used = play(choice, of, 400)
        const speed = ([tokens, seconds]: [number, number]) => tokens / seconds
        const fastest = Math.max(...Object.values(of).map(speed))
        const good = used.slice(12).filter((name) => speed(of[name as keyof typeof of]) * 1.06 >= fastest)
        expect(good.length).toBeGreaterThan(0.85 * 388)
      }),
    )
  })

  it('rejects an empty list of drafters', () => {
    expect(() => new DrafterChoice([])).toThrow(RangeError)
  })
})
