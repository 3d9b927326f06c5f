import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evictionsFor, evictionsWithinShare, kvCharge, positionsWithin } from '../../../../core/policy/admission/kv.ts'

const limits = { bytesPerPosition: 10, contextLimit: 1_000, blockPositions: 64, firstPositions: 40 }

describe('the KV charge of a stream', () => {
  it.each([
    [639, 0],
    [640, 64],
    [2_559, 192],
    [9_999, 960],
    [10_000, 1_000],
  ])('of %i bytes at most allows %i positions', (bytes, positions) => {
    expect(positionsWithin(bytes, limits)).toBe(positions)
  })

  it.each([
    [1, 64],
    [33, 64],
    [64, 64],
    [65, 128],
    [513, 576],
    [961, 1_000],
    [1_000, 1_000],
  ])('of %i rows is for the %i positions that the buffers will have', (length, positions) => {
    expect(kvCharge(length, limits)).toBe(10 * positions)
  })
})

describe('evicting cached prefixes', () => {
  const bytes = fc.nat({ max: 100 })

  it('frees the missing bytes, oldest prefix first and no prefix more, or reports that they cannot be freed', () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 8 }), bytes, bytes, bytes, (sizes, streamBytes, neededBytes, slackBytes) => {
        const cached = sizes.map((kvBytes, i) => ({ handle: `${i}`, owner: 'jetson-01', kvBytes }))
        const cachedBytes = sizes.reduce((sum, size) => sum + size, 0)
        const usage = { usedBytes: streamBytes + cachedBytes, budgetBytes: streamBytes + cachedBytes + slackBytes }
        const evicted = evictionsFor(neededBytes, usage, cached)
        if (!evicted) {
          expect(neededBytes).toBeGreaterThan(slackBytes + cachedBytes)
          return
        }
        expect(evicted).toEqual(cached.slice(0, evicted.length))
        const freedBytes = evicted.reduce((sum, { kvBytes }) => sum + kvBytes, 0)
        expect(freedBytes + slackBytes).toBeGreaterThanOrEqual(neededBytes)
        const last = evicted.at(-1)
        if (last) expect(freedBytes - last.kvBytes + slackBytes).toBeLessThan(neededBytes)
      }),
    )
  })
})

describe('a device at its share of the KV memory', () => {
  const prefix = (handle: string, owner: string) => ({ handle, owner, kvBytes: 10 })
  const cached = [prefix('a', 'other'), prefix('b', 'own'), prefix('c', 'own'), prefix('d', 'other')]
  const share = { owner: 'own', budgetBytes: 50, usedBytes: 50 }

  it('loses its own prefixes, oldest first, even while the whole memory has room', () => {
    const usage = { budgetBytes: 1_000, usedBytes: 80 }
    expect(evictionsWithinShare(15, usage, share, cached)).toEqual([cached[1], cached[2]])
    expect(evictionsWithinShare(21, usage, share, cached)).toBeUndefined()
  })

  it('also evicts those of others where the whole memory is full', () => {
    const below = { ...share, usedBytes: 20 }
    expect(evictionsWithinShare(10, { budgetBytes: 100, usedBytes: 100 }, below, cached)).toEqual([cached[0]])
    expect(evictionsWithinShare(40, { budgetBytes: 100, usedBytes: 80 }, { ...share, usedBytes: 15 }, cached)).toEqual([
      cached[1],
      cached[0],
    ])
  })

  it('reads the cached prefixes only where something must be evicted', () => {
    const unread = (function* () {
      yield prefix('a', 'own')
      throw new Error('the prefixes were read')
    })()
    expect(evictionsWithinShare(10, { budgetBytes: 100, usedBytes: 90 }, { ...share, usedBytes: 40 }, unread)).toEqual([])
  })
})
