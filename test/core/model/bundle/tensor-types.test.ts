import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { blockTypes, tensorType } from '../../../../core/model/bundle/tensor-types.ts'

const fixture = fileURLToPath(new URL('../../../fixtures/gguf/blocks.json', import.meta.url))
const blocks: Record<string, { blocks: string; values: string }> = JSON.parse(readFileSync(fixture, 'utf8'))

it('reads the types of which there are blocks with known values', () => {
  expect([...blockTypes].sort()).toEqual(Object.keys(blocks).sort())
})

describe.each(Object.entries(blocks))('%s', (name, { blocks: encoded, values: expected }) => {
  const bytes = Uint8Array.from(Buffer.from(encoded, 'base64'))
  const wanted = new Float32Array(Uint8Array.from(Buffer.from(expected, 'base64')).buffer)
  const type = tensorType(name)!

  it('has the values of the reference implementation', () => {
    expect(bytes.length / type.bytes).toBe(3)
    const values = new Float32Array(3 * type.values)
    type.decode(bytes, values)
    // One rounding more or less in the last bit.
    for (const [i, value] of values.entries())
      expect(Math.abs(value - wanted[i]!)).toBeLessThanOrEqual(2 ** -20 * Math.max(1, Math.abs(wanted[i]!)))
  })

  if (!type.packing) return
  it('is repacked without loss', () => {
    const { bits, blockSize } = type.packing!
    const codes = new Uint8Array(wanted.length)
    const scales = new Float32Array(wanted.length / blockSize)
    type.unpack!(bytes, { codes, scales })
    const values = [...codes].map((code, i) => (code - 2 ** (bits - 1)) * scales[Math.floor(i / blockSize)]!)
    expect(values.map((value) => value + 0)).toEqual([...wanted].map((value) => value + 0))
  })
})
