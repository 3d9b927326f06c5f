import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evictionsFor, firstKvCharge, kvBytesPerPosition, kvCharge } from '../../../../core/policy/admission/kv.ts'

const limits = { bytesPerPosition: 10, contextLimit: 1_000, firstPositions: 40 }

describe('the KV charge of a stream', () => {
  it('counts keys and values of all layers in fp32', () => {
    expect(kvBytesPerPosition({ layers: [2, 6], kvHeads: 2, headDim: 16 })).toBe(2 * 4 * 2 * 16 * 4)
  })

  it('starts with the first positions, or the context limit where that is less', () => {
    expect(firstKvCharge(limits)).toBe(400)
    expect(firstKvCharge({ ...limits, contextLimit: 8 })).toBe(80)
  })

  it.each([
    [0, 1],
    [1, 1],
    [3, 4],
    [64, 64],
    [65, 128],
    [513, 1_000],
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
        const cached = sizes.map((kvBytes, i) => ({ handle: `${i}`, kvBytes }))
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
