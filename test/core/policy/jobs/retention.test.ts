import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bytesToDelete } from '../../../../core/policy/jobs/retention.ts'

const shares = (bytes: Record<string, number>) => new Map(Object.entries(bytes))
const sum = (bytes: Iterable<number>) => [...bytes].reduce((total, one) => total + one, 0)

describe('what devices give when the database is too large', () => {
  it.each([
    ['nothing within the limit', { a: 600, b: 400 }, 1_000, {}],
    ['nothing of an empty database', {}, 0, {}],
    ['only the largest, while that is enough', { a: 700, b: 200, c: 100 }, 1_250, { a: 200 }],
    ['the two largest until they are equal', { a: 500, b: 400, c: 100 }, 2_000, { a: 300, b: 200 }],
    ['all, when their shares are equal', { a: 500, b: 500 }, 2_000, { a: 250, b: 250 }],
  ])('is %s', (_, stored, usedBytes, given) => {
    expect(bytesToDelete(shares(stored), usedBytes, 1_000)).toEqual(shares(given))
  })

  it('is the surplus, and never takes a device below another that gives nothing', () => {
    const stored = fc.dictionary(fc.string({ maxLength: 3 }), fc.nat(1e6), { maxKeys: 8 })
    fc.assert(
      fc.property(stored, fc.integer({ min: 1, max: 1e7 }), fc.integer({ min: 1, max: 1e7 }), (bytes, usedBytes, maxBytes) => {
        const before = shares(bytes)
        const given = bytesToDelete(before, usedBytes, maxBytes)
        const total = sum(before.values())
        const surplus = Math.max(0, total - Math.floor((total * maxBytes) / usedBytes))
        expect(sum(given.values())).toBeCloseTo(surplus, 3)
        const left = [...before].map(([device, share]) => share - (given.get(device) ?? 0))
        const level = Math.max(0, ...left)
        for (const [device, share] of given) expect(before.get(device)! - share).toBeCloseTo(level, 3)
      }),
    )
  })
})
