import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BatchTerms, nextBatch } from '../../../../core/policy/pice/next-batch.ts'

const terms: BatchTerms = { upToTokens: [100, 200], maxSketches: 3, maxWaitS: 10 }
const waiting = (id: string, expectedTokens: number, waitedS = 0) => ({ id, expectedTokens, waitedS })
const ids = (batch: readonly { readonly id: string }[]) => batch.map(({ id }) => id).join(' ')

describe('the next batch', () => {
  const queue = [waiting('s1', 50, 1), waiting('m1', 150, 5), waiting('m2', 200, 3), waiting('m3', 101, 4), waiting('l1', 900, 6)]

  it('comes from the list with the most expansions, the oldest first', () => {
    expect(ids(nextBatch(queue, terms))).toBe('m1 m3 m2')
    expect(ids(nextBatch(queue, { ...terms, maxSketches: 2 }))).toBe('m1 m3')
  })

  it('comes from the list of an expansion that has waited too long', () => {
    expect(ids(nextBatch(queue, { ...terms, maxWaitS: 6 }))).toBe('l1')
  })

  it('comes from the list whose oldest has waited longest, of lists of the same length', () => {
    expect(ids(nextBatch([waiting('s1', 50, 1), waiting('l1', 900, 2)], terms))).toBe('l1')
  })

  it('leaves other idle devices their share', () => {
    expect(ids(nextBatch(queue, terms, 2))).toBe('m1 m3 m2')
    expect(ids(nextBatch(queue, terms, 3))).toBe('m1 m3')
    expect(ids(nextBatch(queue, terms, 9))).toBe('m1')
  })

  it('comes from the list of the oldest expansion where that would be late after another batch', () => {
    const inTime = (most: number) => (batch: readonly { readonly id: string }[]) => batch.length <= most
    expect(ids(nextBatch(queue, terms, 1, inTime(4)))).toBe('m1 m3 m2')
    const late = (batch: readonly { readonly id: string }[]) => batch.length < 4 && !ids(batch).includes('m1 l1')
    expect(ids(nextBatch(queue, { ...terms, maxSketches: 1 }, 1, late))).toBe('l1')
  })

  it('is no larger than what the device may take at once, but never empty', () => {
    const alike = queue.slice(1, 4)
    expect(ids(nextBatch(alike, terms, 1, ({ length }) => length <= 2))).toBe('m1 m3')
    expect(ids(nextBatch(alike, terms, 1, () => false))).toBe('m1')
  })

  it('is empty only if nothing waits', () => {
    expect(nextBatch([], terms)).toEqual([])
  })

  it('holds like lengths, nothing twice, and the oldest expansion once that has waited too long', () => {
    const expansion = fc.record({ expectedTokens: fc.integer({ min: 1, max: 400 }), waitedS: fc.integer({ min: 0, max: 20 }) })
    const listOf = (tokens: number) => (tokens <= 100 ? 0 : tokens <= 200 ? 1 : 2)
    fc.assert(
      fc.property(fc.array(expansion, { minLength: 1, maxLength: 30 }), fc.integer({ min: 1, max: 8 }), (all, devices) => {
        const named = all.map((one, at) => ({ id: `${at}`, ...one }))
        const batch = nextBatch(named, terms, devices)
        expect(batch.length).toBeGreaterThan(0)
        expect(new Set(batch).size).toBe(batch.length)
        expect(new Set(batch.map(({ expectedTokens }) => listOf(expectedTokens))).size).toBe(1)
        const longestS = Math.max(...named.map(({ waitedS }) => waitedS))
        if (longestS >= terms.maxWaitS) expect(batch[0]!.waitedS).toBe(longestS)
      }),
    )
  })

  it.each([
    [10, true],
    [Number.POSITIVE_INFINITY, false],
  ])('with a bound of %f s, lets a long expansion through a stream of short ones: %s', (maxWaitS, isTaken) => {
    let queue = [waiting('long', 900)]
    for (let second = 0; second < 60 && queue.some(({ id }) => id === 'long'); second += 1) {
      // As many as a device takes come in again.
      while (queue.length < 6) queue.push(waiting(`${second}-${queue.length}`, 50))
      const taken = new Set(nextBatch(queue, { ...terms, maxWaitS }))
      queue = queue.filter((one) => !taken.has(one)).map((one) => ({ ...one, waitedS: one.waitedS + 1 }))
    }
    expect(queue.some(({ id }) => id === 'long')).toBe(!isTaken)
  })
})
