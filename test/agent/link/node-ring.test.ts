import fc from 'fast-check'
import { expect, it } from 'vitest'
import { NodeRing } from '../../../agent/link/node-ring.ts'

const urls = ['mqtt://a:1', 'mqtt://b:1', 'mqtt://c:1']
const away = new Error('away')
const refused = new Error('refused')

/** Tries the nodes as they are now. @returns which were tried, and the one that let the agent in */
async function attempt(ring: NodeRing, states: Readonly<Record<string, 'up' | 'away' | 'refuses'>>) {
  const tried: string[] = []
  const connected = await ring
    .connect(
      async (url) => {
        tried.push(url)
        if (states[url] !== 'up') throw states[url] === 'away' ? away : refused
        return url
      },
      (error) => error === away,
    )
    .catch((error: unknown) => error)
  return { tried, connected }
}

const state = fc.constantFrom('up' as const, 'away' as const, 'refuses' as const)
const world = fc.tuple(state, state, state).map((states) => Object.fromEntries(urls.map((url, at) => [url, states[at]!])))

it('tries each node at most once, begins where it was connected, and stops at the first that answers', () =>
  fc.assert(
    fc.asyncProperty(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.array(world, { maxLength: 8 }), async (first, worlds) => {
      const ring = new NodeRing(urls.join(','), { next: () => first })
      let last: unknown
      for (const states of worlds) {
        const { tried, connected } = await attempt(ring, states)
        expect(new Set(tried).size).toBe(tried.length)
        if (typeof last === 'string') expect(tried[0]).toBe(last)
        expect(tried.slice(0, -1).every((url) => states[url] === 'away')).toBe(true)
        const end = states[tried.at(-1)!]
        if (end === 'up') expect(connected).toBe(tried.at(-1))
        else expect(end === 'refuses' ? [refused] : [away]).toContain(connected)
        if (end === 'away') expect(tried).toHaveLength(urls.length)
        last = connected
      }
    }),
  ))

it('a fleet begins at all of them', () => {
  const begins = [0, 0.4, 0.9].map(async (first) => {
    const ring = new NodeRing(urls.join(','), { next: () => first })
    return (await attempt(ring, { [urls[0]!]: 'up', [urls[1]!]: 'up', [urls[2]!]: 'up' })).connected
  })
  return expect(Promise.all(begins)).resolves.toEqual(urls)
})
