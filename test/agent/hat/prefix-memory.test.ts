import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const given = (handle: string) => ({ handle, bridge: 'bridge-1' })
const ids = (count: number, first = 0) => Array.from({ length: count }, (_, at) => first + at)

describe('a cached prefix', () => {
  it('is found by the longest common prefix, at most one position short of the prompt', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(20), given('short'))
    memory.remember('app', ids(40), given('long'))
    expect(memory.find('app', [...ids(30), 99])).toEqual({ ...given('long'), length: 30 })
    expect(memory.find('app', ids(40))).toEqual({ ...given('long'), length: 39 })
    expect(memory.find('app', [...ids(60)])).toEqual({ ...given('long'), length: 40 })
  })

  it('is not resumed for a few positions', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(40), given('a'))
    expect(memory.find('app', [...ids(15), 99, 99])).toBeUndefined()
  })

  it('belongs to one client', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(40), given('a'))
    expect(memory.find('other', ids(50))).toBeUndefined()
  })

  it('is forgotten on request, and after its expiry', async () => {
    const clock = fakeClock()
    const memory = new PrefixMemory(clock, 1_000)
    memory.remember('app', ids(40), given('a'))
    memory.remember('app', ids(30), given('b'))
    memory.forget('a')
    expect(memory.find('app', ids(50))).toEqual({ ...given('b'), length: 30 })
    await clock.advance(1_001)
    expect(memory.find('app', ids(50))).toBeUndefined()
  })

  it('is dropped, oldest first, beyond the maximum number', () => {
    const memory = new PrefixMemory(fakeClock())
    for (let at = 0; at < 100; at++) memory.remember('app', ids(40, at * 1000), given(`h${at}`))
    expect(memory.find('app', ids(50, 0))).toBeUndefined()
    expect(memory.find('app', ids(50, 99_000))).toEqual({ ...given('h99'), length: 40 })
  })

  it('is always a prefix of the prompt, with at least one position left', () => {
    // Long enough for a resumable prefix.
    const tokens = fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 60, size: 'max' })
    const branches = fc.array(fc.tuple(fc.nat({ max: 60 }), tokens), { maxLength: 8 })
    let hits = 0
    fc.assert(
      fc.property(branches, tokens, (others, prompt) => {
        const memory = new PrefixMemory(fakeClock())
        const cached = others.map(([shared, rest]) => [...prompt.slice(0, shared), ...rest])
        for (const [at, ids] of cached.entries()) memory.remember('app', ids, given(`${at}`))
        const found = memory.find('app', prompt)
        if (!found) return
        hits += 1
        expect(found.length).toBeLessThan(prompt.length)
        expect(cached[Number(found.handle)]!.slice(0, found.length)).toEqual(prompt.slice(0, found.length))
      }),
      { seed: 1 },
    )
    expect(hits).toBeGreaterThan(10)
  })
})
