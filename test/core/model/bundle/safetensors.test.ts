import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { headerLength, parseHeader, type TensorInfo } from '../../../../core/model/bundle/safetensors.ts'
import { safetensors } from '../../../support/checkpoint.ts'

function read(bytes: Uint8Array): TensorInfo[] {
  const length = headerLength('model.safetensors', bytes.subarray(0, 8), bytes.length)
  return parseHeader('model.safetensors', bytes.subarray(8, 8 + length), bytes.length)
}

const good = {
  a: { dtype: 'F32', shape: [2, 3], data_offsets: [0, 24] },
  b: { dtype: 'BF16', shape: [4], data_offsets: [24, 32] },
}
const file = (header: unknown, dataBytes = 32) => safetensors(JSON.stringify(header), new Uint8Array(dataBytes))

describe('a safetensors header', () => {
  it('gives the position of each tensor in the file', () => {
    const bytes = file({ __metadata__: { format: 'pt' }, ...good })
    const start = bytes.length - 32
    expect(read(bytes)).toEqual([
      { name: 'a', dtype: 'F32', shape: [2, 3], file: 'model.safetensors', offset: start, bytes: 24 },
      { name: 'b', dtype: 'BF16', shape: [4], file: 'model.safetensors', offset: start + 24, bytes: 8 },
    ])
  })

  it('may have scalars and empty tensors', () => {
    const shapes = read(
      file({ s: { dtype: 'F32', shape: [], data_offsets: [0, 4] }, e: { dtype: 'F16', shape: [0, 7], data_offsets: [4, 4] } }),
    )
    expect(shapes.map(({ bytes }) => bytes)).toEqual([4, 0])
  })

  const invalid: [what: string, bytes: Uint8Array, message: RegExp][] = [
    ['an empty file', new Uint8Array(0), /model\.safetensors has 0 bytes/],
    ['a file of seven bytes', new Uint8Array(7), /has 7 bytes/],
    ['a header longer than the file', Buffer.from([200, 0, 0, 0, 0, 0, 0, 0, 123, 125]), /the file ends after 10/],
    ['a header of 2^63 bytes', Buffer.from([0, 0, 0, 0, 0, 0, 0, 128, 123, 125]), /claims a header of 9223372036854775808 bytes/],
    ['a header that is not JSON', safetensors('{"a":', new Uint8Array(4)), /not JSON/],
    ['a header that is not UTF-8', Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 34, 255, 34]), /not JSON/],
    ['a list instead of an object', safetensors('[]', new Uint8Array(4)), /not a JSON object/],
    ['a tensor without offsets', file({ a: { dtype: 'F32', shape: [1] } }), /unreadable entry for the tensor a/],
    [
      'negative dimensions',
      file({ a: { dtype: 'F32', shape: [-1, -1], data_offsets: [0, 4] } }),
      /unreadable entry for the tensor a/,
    ],
    ['negative offsets', file({ a: { dtype: 'F32', shape: [1], data_offsets: [-4, 0] } }), /unreadable entry for the tensor a/],
    ['an unknown type', file({ a: { dtype: 'F12', shape: [1], data_offsets: [0, 4] } }), /tensor a the unknown type F12/],
    [
      'a type out of the object prototype',
      file({ a: { dtype: 'toString', shape: [1], data_offsets: [0, 4] } }),
      /unknown type toString/,
    ],
    [
      'a shape that does not fill its bytes',
      file({ a: { dtype: 'F32', shape: [3], data_offsets: [0, 8] } }),
      /tensor a 8 bytes, but F32 \[3\] has 12/,
    ],
    [
      'a shape too large to count',
      file({ a: { dtype: 'F32', shape: [2 ** 50, 2 ** 50], data_offsets: [0, 8] } }),
      /tensor a 8 bytes/,
    ],
    ['truncated data', file(good, 31), /cut short: the tensor b ends at byte/],
    [
      'overlapping tensors',
      file({ ...good, c: { dtype: 'F16', shape: [2], data_offsets: [22, 26] } }),
      /overlapping tensors \w and \w/,
    ],
  ]
  it.each(invalid)('is rejected with %s', (_, bytes, message) => {
    expect(() => read(bytes)).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_INVALID', message: expect.stringMatching(message) }),
    )
  })
})

describe('arbitrary bytes', () => {
  const holds = (bytes: Uint8Array) => {
    try {
      const spans = read(bytes).map(({ offset, bytes: length }) => [offset, offset + length] as const)
      for (const [from, to] of spans) {
        expect(from).toBeGreaterThanOrEqual(8)
        expect(to).toBeLessThanOrEqual(bytes.length)
      }
      const used = spans.filter(([from, to]) => to > from).sort(([a], [b]) => a - b)
      for (const [i, [from]] of used.entries()) expect(from).toBeGreaterThanOrEqual(used[i - 1]?.[1] ?? 0)
    } catch (error) {
      expect(error).toBeInstanceOf(BrimError)
      expect(error).toMatchObject({ code: 'SAFETENSORS_INVALID', hint: expect.any(String) })
    }
  }

  it('are rejected with the right code or describe tensors within the file', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), holds), { numRuns: 500 })
  })

  it('in place of any part of a valid file are rejected or harmless', () => {
    const bytes = file(good)
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.uint8Array({ minLength: 1, maxLength: 6 }))
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), fc.nat(bytes.length), (changes, length) => {
        const damaged = Uint8Array.from(bytes)
        for (const [at, patch] of changes) damaged.set(patch.subarray(0, damaged.length - at), at)
        holds(damaged)
        holds(damaged.subarray(0, length))
      }),
      { numRuns: 1000 },
    )
  })

  it('as JSON of any shape are rejected or harmless', () => {
    const number = fc.oneof(fc.nat(40), fc.integer(), fc.double())
    const entry = fc.record(
      {
        dtype: fc.constantFrom('F32', 'BF16', 'I64', 'X'),
        shape: fc.array(number, { maxLength: 3 }),
        data_offsets: fc.array(number, { maxLength: 3 }),
      },
      { requiredKeys: [] },
    )
    const header = fc.dictionary(fc.string(), fc.oneof({ weight: 4, arbitrary: entry }, fc.jsonValue()))
    fc.assert(
      fc.property(header, (value) => holds(file(value))),
      { numRuns: 1000, examples: [[JSON.parse('{"__proto__": {"dtype": "F32"}}')]] },
    )
  })
})
