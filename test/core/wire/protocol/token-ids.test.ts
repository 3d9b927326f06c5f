import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bitsPerId, packIds, unpackIds } from '../../../../core/wire/protocol/token-ids.ts'

it('ids of any vocabulary are read as they were packed, in as many bits as the vocabulary needs', () => {
  const ids = fc.integer({ min: 2, max: 2 ** 24 }).chain((vocab) => {
    const list = fc.array(fc.integer({ min: 0, max: vocab - 1 }), { minLength: 1, maxLength: 200 })
    return fc.tuple(fc.constant(vocab), list)
  })
  fc.assert(
    fc.property(ids, ([vocab, list]) => {
      const packed = packIds(list, vocab)
      expect(unpackIds(packed, vocab)).toEqual(list)
      expect(Buffer.from(packed, 'base64').byteLength).toBe(Math.ceil((list.length * bitsPerId(vocab)) / 8))
    }),
    { examples: [[[2 ** 24, [2 ** 24 - 1, 0, 2 ** 24 - 1]]], [[2, [0, 1, 0]]]] },
  )
  expect([bitsPerId(100_000), bitsPerId(2 ** 17), bitsPerId(2 ** 17 + 1)]).toEqual([17, 17, 18])
})

it('what is no packed ids of the vocabulary is refused', () => {
  expect(unpackIds('', 1_000)).toBeUndefined()
  expect(unpackIds('no base64!', 1_000)).toBeUndefined()
  expect(unpackIds(packIds([999], 1_000), 998)).toBeUndefined()
  // The bits after the last id are zeros, and fewer than a byte.
  expect(unpackIds(Buffer.from([0, 1]).toString('base64'), 1_000)).toBeUndefined()
  expect(unpackIds(Buffer.from([0]).toString('base64'), 1_000)).toBeUndefined()
})
