import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseWithin } from '../../../../core/policy/tokenflow/choose-within.ts'

type Items = readonly (readonly [utility: number, bytes: number])[]

const anyItem = fc.tuple(fc.double({ min: -5, max: 100, noNaN: true }), fc.integer({ min: 0, max: 64 }))
const anyMemory = fc.integer({ min: 0, max: 400 })

const choose = (items: Items, memoryBytes: number) =>
  chooseWithin(
    Float64Array.from(items, ([utility]) => utility),
    Float64Array.from(items, ([, bytes]) => bytes),
    memoryBytes,
  )
const sumOf = (items: Items, chosen: readonly number[]) => chosen.reduce((sum, at) => sum + items[at]![0], 0)
const bytesOf = (items: Items, chosen: readonly number[]) => chosen.reduce((sum, at) => sum + items[at]![1], 0)

/** By utility per byte, each that still fits. */
function greedily(items: Items, memoryBytes: number): number {
  let [sum, left] = [0, memoryBytes]
  for (const [utility, bytes] of items.toSorted(([u, b], [v, c]) => v / c - u / b))
    if (utility > 0 && bytes <= left) {
      sum += utility
      left -= bytes
    }
  return sum
}

function byBruteForce(items: Items, memoryBytes: number): number {
  let best = 0
  for (let mask = 0; mask < 2 ** items.length; mask += 1) {
    const chosen = items.flatMap((_, at) => (mask & (1 << at) ? [at] : []))
    if (bytesOf(items, chosen) <= memoryBytes) best = Math.max(best, sumOf(items, chosen))
  }
  return best
}

describe('the chosen requests', () => {
  it('fit into the memory, and are worth no less than those chosen greedily', () => {
    fc.assert(
      fc.property(
        fc.array(anyItem, { maxLength: 200 }),
        fc.oneof(anyMemory, fc.integer({ min: 0, max: 6_000 })),
        (items, memoryBytes) => {
          const chosen = choose(items, memoryBytes)
          expect(new Set(chosen).size).toBe(chosen.length)
          expect(bytesOf(items, chosen)).toBeLessThanOrEqual(memoryBytes)
          for (const at of chosen) expect(items[at]![0]).toBeGreaterThan(0)
          expect(sumOf(items, chosen)).toBeGreaterThanOrEqual(greedily(items, memoryBytes) - 1e-9)
        },
      ),
    )
  })

  it('are worth at least 95 % of the best choice among up to 12', () => {
    const alike = fc.integer({ min: 50, max: 64 }).map((bytes) => [bytes + 0.5, bytes] as const)
    const items = fc.array(fc.oneof(anyItem, alike), { maxLength: 12 })
    fc.assert(
      fc.property(items, anyMemory, (all, memoryBytes) => {
        expect(sumOf(all, choose(all, memoryBytes))).toBeGreaterThanOrEqual(0.95 * byBruteForce(all, memoryBytes) - 1e-9)
      }),
      {
        examples: [
          [
            [
              [1.01, 1],
              [10, 10],
            ],
            10,
          ],
        ],
        numRuns: 60,
      },
    )
  })

  it('are the first ones where all are alike', () => {
    expect(
      choose(
        Array.from({ length: 9 }, () => [3, 10] as const),
        45,
      ).toSorted(),
    ).toEqual([0, 1, 2, 3])
  })
})
