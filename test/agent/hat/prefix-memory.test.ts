import fc from 'fast-check'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import type { PrefixHandle } from '../../../agent/link/link-session.ts'
import { DeviceStream } from '../../../core/model/draft/device-stream.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { type AlteredPart, alteredPart } from '../../support/altered-part.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { fresh, shared } from '../../support/shared.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)
const model = shared(() => openBundle(bundle.path, { parts: ['input'], threads: 1 }))
let input: AlteredPart
const clock = fresh(fakeClock)
let memory: PrefixMemory
beforeEach(() => {
  input = alteredPart(model.part('input'), {})
  memory = new PrefixMemory(clock, 1_000)
})
afterEach(() => {
  memory.release()
  expect(input.usedBytes()).toBe(0)
})
afterAll(() => model.release())

const given = (handle: string, length: number): PrefixHandle => ({ handle, bridge: 'bridge-1', length })
const ids = (count: number, first = 0) => Array.from({ length: count }, (_, at) => (first + at) % 160)

async function streamOf(tokens: readonly number[]) {
  const stream = new DeviceStream(input, model.manifest.dims.hidden, tokens.length)
  await stream.feed(tokens)
  return stream
}

/** An answer that has ended: the device has computed all, and the bridge has cached what it says. */
async function leave(client: string, tokens: readonly number[], cached: PrefixHandle | undefined) {
  memory.remember(client, tokens, Promise.resolve(cached)).keep(await streamOf(tokens))
}

/** What an answer to this prompt begins with; its stream is released. */
async function found(client: string, prompt: readonly number[]) {
  const { resume, stream } = await memory.find(client, prompt)
  expect(stream?.ids ?? []).toEqual(prompt.slice(0, stream?.ids.length ?? 0))
  stream?.release()
  return { resume, computed: stream?.ids.length }
}
const nothing = { resume: undefined, computed: undefined }

describe('a prefix', () => {
  it('is found by the longest common beginning, at most one position short of the prompt', async () => {
    await leave('app', ids(20), given('short', 20))
    await leave('app', ids(40), given('long', 40))
    expect(await found('app', [...ids(30), 99])).toEqual({ resume: given('long', 30), computed: 30 })
    expect(await found('app', ids(40))).toEqual({ resume: given('long', 39), computed: 39 })
    expect(await found('app', ids(60))).toEqual({ resume: given('long', 40), computed: 40 })
  })

  it('is not resumed for a few positions', async () => {
    await leave('app', ids(40), given('a', 40))
    expect(await found('app', [...ids(15), 99, 99])).toEqual(nothing)
  })

  it('belongs to one client', async () => {
    await leave('app', ids(40), given('a', 40))
    expect(await found('other', ids(50))).toEqual(nothing)
  })

  it('of which the bridge has cached less is computed to its end', async () => {
    await leave('app', ids(40), given('a', 30))
    expect(await found('app', ids(50))).toEqual({ resume: given('a', 30), computed: 40 })
  })

  it('that the bridge has not, or no longer, is computed', async () => {
    await leave('app', ids(40), undefined)
    await leave('app', ids(40, 60), given('b', 40))
    await found('app', ids(50, 60))
    memory.forget('b')
    expect(await found('app', ids(50))).toEqual({ resume: undefined, computed: 40 })
    expect(await found('app', ids(50, 60))).toEqual({ resume: undefined, computed: 40 })
  })

  it('is waited for, while the bridge has not replied', async () => {
    let reply: (cached: PrefixHandle | undefined) => void = () => {}
    const cached = new Promise<PrefixHandle | undefined>((resolve) => {
      reply = resolve
    })
    const left = memory.remember('app', ids(40), cached)
    const finding = found('app', ids(50))
    left.keep(await streamOf(ids(40)))
    reply(given('late', 40))
    expect(await finding).toEqual({ resume: given('late', 40), computed: 40 })
  })

  it('is forgotten after its expiry, and its stream freed', async () => {
    await leave('app', ids(40), given('a', 40))
    await clock.advance(1_001)
    expect(await found('app', ids(50))).toEqual(nothing)
    expect(input.usedBytes()).toBe(0)
  })

  it('is dropped, oldest first, beyond the maximum number', async () => {
    for (let at = 0; at < 40; at++) await leave('app', [at, ...ids(40)], given(`h${at}`, 41))
    expect(await found('app', [0, ...ids(50)])).toEqual(nothing)
    expect(await found('app', [39, ...ids(50)])).toEqual({ resume: given('h39', 41), computed: 41 })
  })
})

describe('a stream', () => {
  it('is freed once that of a longer conversation has it too', async () => {
    await leave('app', ids(40), given('a', 40))
    const one = input.usedBytes()
    await leave('app', ids(60), given('b', 60))
    expect(await found('app', ids(70))).toEqual({ resume: given('b', 60), computed: 60 })
    expect(input.usedBytes()).toBe(one)
  })

  it('of an answer that ends after the model was replaced is freed at once', async () => {
    const left = memory.remember('app', ids(40), Promise.resolve(undefined))
    memory.release()
    left.keep(await streamOf(ids(40)))
    expect(input.usedBytes()).toBe(0)
  })

  it('that takes too much memory is freed, and the bridge resumes all the same', async () => {
    const stream = await streamOf(ids(40))
    Object.defineProperty(stream, 'bytes', { value: 2 ** 30 })
    memory.remember('app', ids(40), Promise.resolve(given('a', 40))).keep(stream)
    expect(await found('app', ids(50))).toEqual({ resume: given('a', 40), computed: undefined })
  })
})

it('what is found is a prefix of the prompt, with at least one position left', async () => {
  // Long enough for a prefix.
  const tokens = fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 60, size: 'max' })
  const branches = fc.array(fc.tuple(fc.nat({ max: 60 }), tokens), { maxLength: 4 })
  let hits = 0
  await fc.assert(
    fc.asyncProperty(branches, tokens, async (others, prompt) => {
      memory.release()
      memory = new PrefixMemory(clock)
      const cached = others.map(([shared, rest]) => [...prompt.slice(0, shared), ...rest])
      for (const [at, each] of cached.entries()) await leave('app', each, given(`${at}`, each.length))
      const { resume, computed } = await found('app', prompt)
      if (!resume) return
      hits += 1
      expect(resume.length).toBeLessThan(prompt.length)
      expect(resume.length).toBe(computed)
      expect(cached[Number(resume.handle)]!.slice(0, resume.length)).toEqual(prompt.slice(0, resume.length))
    }),
    { seed: 1, numRuns: 60 },
  )
  expect(hits).toBeGreaterThan(10)
})
