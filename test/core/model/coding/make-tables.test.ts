import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { codeLengths, makeTables } from '../../../../core/model/coding/make-tables.ts'
import { RowCoder } from '../../../../core/wire/protocol/row-coder.ts'
import { CodingTables, maxCodeBits, symbolCount } from '../../../../core/wire/protocol/state-coding.ts'
import type { States } from '../../../../core/wire/protocol/states.ts'
import { normalStates } from '../../../support/coded-states.ts'

const weights = fc.array(fc.double({ min: 1, max: 1e9, noNaN: true }), { minLength: symbolCount, maxLength: symbolCount })
const cost = (lengths: readonly number[], of: readonly number[]) => lengths.reduce((sum, length, i) => sum + length * of[i]!, 0)

describe('code lengths', () => {
  it('make a complete code, in which a likelier symbol has no longer code', () => {
    fc.assert(
      fc.property(weights, (given) => {
        const lengths = codeLengths(given)
        expect(lengths.reduce((sum, length) => sum + 2 ** -length, 0)).toBe(1)
        expect(Math.max(...lengths)).toBeLessThanOrEqual(maxCodeBits)
        const byWeight = [...given.keys()].sort((a, b) => given[b]! - given[a]! || lengths[a]! - lengths[b]!)
        const ordered = byWeight.map((symbol) => lengths[symbol]!)
        expect(ordered).toEqual(ordered.toSorted((a, b) => a - b))
      }),
    )
  })

  it('cost at most a bit more than the entropy, and no more than codes of one length', () => {
    fc.assert(
      fc.property(weights, (given) => {
        const total = given.reduce((sum, weight) => sum + weight, 0)
        const entropy = given.reduce((sum, weight) => sum - weight * Math.log2(weight / total), 0)
        const rarest = symbolCount * 2 ** -maxCodeBits
        expect(cost(codeLengths(given), given)).toBeLessThanOrEqual(6 * total)
        expect(cost(codeLengths(given), given)).toBeLessThanOrEqual(entropy + total * (1 + rarest))
      }),
    )
  })

  it('are those of Huffman where these are short enough', () => {
    const given = Array.from({ length: symbolCount }, (_, i) => (i === 0 ? 1_000 : i < 3 ? 600 - 100 * i : 1))
    const lengths = codeLengths(given)
    expect(lengths.slice(0, 3)).toEqual([1, 2, 3])
    expect(new Set(lengths.slice(3))).toEqual(new Set([8, 9]))
  })
})

describe('tables for a sample', () => {
  const width = 96
  const tables = makeTables([normalStates(120, width, 1), normalStates(40, width, 2)])!

  it('are valid, and share what channels have in common', () => {
    expect(CodingTables.safeParse(tables).success).toBe(true)
    expect(tables.lengths.length).toBeGreaterThan(4)
    expect(tables.lengths.length).toBeLessThanOrEqual(12)
    expect(makeTables([normalStates(120, 48, 1)])!.lengths.length).toBeLessThanOrEqual(6)
  })

  it('fit other rows of the kind, in blocks of any size', () => {
    const coder = new RowCoder(tables)
    const { half } = normalStates(4_000, width, 9)
    for (const rows of [1, 2, 9, 40])
      for (let from = 0; from + rows <= 4_000; from += rows)
        expect(coder.encode(half.subarray(from * width, (from + rows) * width), rows)).toBeDefined()
  })

  it('have a rate that the longest text keeps, and slack for its longest rows', () => {
    const quiet = normalStates(64, width, 3)
    const loud = { ...quiet, half: quiet.half.map((bits) => bits ^ 0x8000) }
    const mixed = makeTables([quiet, loud])!
    const alone = makeTables([quiet])!
    expect(mixed.rowBits).toBeGreaterThan(alone.rowBits)
    const late = quiet.half.slice()
    late.fill(0x0001, 60 * width, 64 * width)
    const burst = makeTables([{ ...quiet, half: late }])
    if (burst) expect(burst.slackBits).toBeGreaterThan(alone.slackBits)
    const coder = new RowCoder(mixed)
    for (const { half } of [quiet, loud]) expect(coder.encode(half, 64)).toBeDefined()
  })

  it('leave rows out that travel as fp32', () => {
    const { rows, half } = normalStates(120, width, 1)
    const zeros = half.slice()
    zeros.fill(0, 0, width)
    const wide: States = { rows, width, half: zeros, wide: { index: [0], values: new Float32Array(width) } }
    const without: States = { rows: rows - 1, width, half: half.slice(width) }
    const [a, b] = [makeTables([wide])!, makeTables([without])!]
    expect(a.lengths).toEqual(b.lengths)
    expect(a.slackBits).toBe(b.slackBits)
  })

  it('are none where values are random bits', () => {
    const half = Uint16Array.from({ length: 64 * width }, (_, i) => Math.imul(i + 1, 2_654_435_761) >>> 16)
    expect(makeTables([{ rows: 64, width, half }])).toBeUndefined()
  })
})
