import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PrefixMemory } from '../../agent/hat/prefix-memory.ts'
import { fakeClock } from '../support/fake-clock.ts'

const ids = (count: number, first = 0) => Array.from({ length: count }, (_, at) => first + at)

describe('what a bridge still holds', () => {
  it('is found by the longest common beginning, one position short of the prompt', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(20), 'short')
    memory.remember('app', ids(40), 'long')
    expect(memory.find('app', [...ids(30), 99])).toEqual({ handle: 'long', length: 30 })
    expect(memory.find('app', ids(40))).toEqual({ handle: 'long', length: 39 })
    expect(memory.find('app', [...ids(60)])).toEqual({ handle: 'long', length: 40 })
  })

  it('is not worth it for a few positions', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(40), 'a')
    expect(memory.find('app', [...ids(15), 99, 99])).toBeUndefined()
  })

  it('belongs to one client', () => {
    const memory = new PrefixMemory(fakeClock())
    memory.remember('app', ids(40), 'a')
    expect(memory.find('other', ids(50))).toBeUndefined()
  })

  it('is forgotten when it is told to, and after a while', async () => {
    const clock = fakeClock()
    const memory = new PrefixMemory(clock, 1_000)
    memory.remember('app', ids(40), 'a')
    memory.remember('app', ids(30), 'b')
    memory.forget('a')
    expect(memory.find('app', ids(50))).toEqual({ handle: 'b', length: 30 })
    await clock.advance(1_001)
    expect(memory.find('app', ids(50))).toBeUndefined()
  })

  it('is bounded, the oldest going first', () => {
    const memory = new PrefixMemory(fakeClock())
    for (let at = 0; at < 100; at++) memory.remember('app', ids(40, at * 1000), `h${at}`)
    expect(memory.find('app', ids(50, 0))).toBeUndefined()
    expect(memory.find('app', ids(50, 99_000))).toEqual({ handle: 'h99', length: 40 })
  })

  it('is always a true beginning of the prompt, with at least one position left', () => {
    const tokens = fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(fc.array(tokens, { maxLength: 8 }), tokens, (kept, prompt) => {
        const memory = new PrefixMemory(fakeClock())
        kept.forEach((one, at) => {
          memory.remember('app', one, `${at}`)
        })
        const found = memory.find('app', prompt)
        if (!found) return
        expect(found.length).toBeLessThan(prompt.length)
        expect(kept[Number(found.handle)]!.slice(0, found.length)).toEqual(prompt.slice(0, found.length))
      }),
    )
  })
})
