import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import {
  decodeFrame,
  decodeStates,
  encodeFrame,
  headerBytes,
  isCoded,
  paddedRowsOf,
  rowsBytes,
} from '../../../../core/wire/protocol/frame.ts'
import { RowCoder } from '../../../../core/wire/protocol/row-coder.ts'
import {
  CodingTables,
  codedBytes,
  codedRows,
  codingId,
  symbolCount,
  typicalSize,
} from '../../../../core/wire/protocol/state-coding.ts'
import type { States } from '../../../../core/wire/protocol/states.ts'
import { normalStates, normalTables } from '../../../support/coded-states.ts'
import { anyStates } from '../../../support/states.ts'

const width = 64
const tables = normalTables(width)
const coder = new RowCoder(tables)
/** The same codes, with room for any values. */
const roomy = new RowCoder({ ...tables, rowBits: 13 * width, slackBits: 40 })
const fields = { type: 'rows', session: 1n, epoch: 1, seq: 1, base: 7 } as const

const encoded = (states: States, paddedRows?: number, by = coder) => encodeFrame(fields, states, { coder: by, paddedRows })
const decoded = (bytes: Uint8Array, by = coder) => decodeStates(decodeFrame(bytes), width, undefined, by)

/** Values of a wide row travel as fp32 alone. */
const withoutHalfOfWide = ({ half, wide, ...rest }: States, values = width): States => {
  const left = half.slice()
  for (const row of wide?.index ?? []) left.fill(0, row * values, (row + 1) * values)
  return { ...rest, half: left, ...(wide ? { wide } : {}) }
}

describe('coded rows', () => {
  it('hold every fp16 value: subnormal ones, infinities, every NaN, both zeros', () => {
    const half = Uint16Array.from({ length: 65_536 }, (_, bits) => bits)
    const states = { rows: 65_536 / width, width, half }
    const bytes = encoded(states, undefined, roomy)
    expect(isCoded(bytes)).toBe(true)
    expect(decoded(bytes, roomy)).toEqual(states)
  })

  it('decode to the states that were encoded, whatever they are', () => {
    fc.assert(
      fc.property(anyStates({ width }), fc.option(fc.integer({ min: 0, max: 12 }), { nil: undefined }), (states, paddedRows) => {
        for (const by of [coder, roomy]) {
          const bytes = encoded(states, paddedRows, by)
          expect(decoded(bytes, by)).toEqual(isCoded(bytes) ? withoutHalfOfWide(states) : states)
        }
      }),
    )
  })

  it.each([1, 2, 3, 63, 65])('may have %d values each', (values) => {
    const channels = tables.channels.repeat(2).slice(0, values)
    const narrow = new RowCoder({ ...tables, channels, rowBits: 13 * values, slackBits: 40 })
    fc.assert(
      fc.property(anyStates({ width: values }), (states) => {
        const bytes = encoded(states, undefined, narrow)
        expect(isCoded(bytes)).toBe(true)
        expect(decodeStates(decodeFrame(bytes), values, undefined, narrow).half).toEqual(withoutHalfOfWide(states, values).half)
      }),
    )
  })

  it('have a length that depends on their shape alone', () => {
    const shape = fc.tuple(fc.integer({ min: 1, max: 40 }), fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }))
    fc.assert(
      fc.property(shape, fc.integer(), ([rows, paddedRows], seed) => {
        const bytes = encoded(normalStates(rows, width, seed), paddedRows)
        expect(isCoded(bytes)).toBe(true)
        expect(bytes.byteLength).toBe(headerBytes + codedBytes(coder, Math.max(rows, paddedRows ?? 0)))
      }),
    )
  })

  it('take an eighth less than fp16, and a single row less, too', () => {
    expect(codedBytes(coder, 100)).toBeLessThan(0.875 * 100 * 2 * width)
    expect(codedBytes(coder, 1)).toBeLessThan(2 * width)
    expect(codedBytes(coder, 0)).toBe(0)
    expect(rowsBytes('fp16c', 100, 128)).toBe(codedBytes(typicalSize(128), 100))
  })

  it('that do not fit their length travel as fp16, in the same frame as without a coder', () => {
    fc.assert(
      fc.property(anyStates({ width, maxRows: 4 }), fc.integer({ min: 0, max: 5 }), (states, paddedRows) => {
        const bytes = encoded(states, paddedRows)
        if (!isCoded(bytes)) expect(bytes).toEqual(encodeFrame(fields, states, { paddedRows }))
      }),
    )
    const rare = { rows: 2, width, half: new Uint16Array(2 * width).fill(0xfbff) }
    expect(encoded(rare)).toEqual(encodeFrame(fields, rare))
  })

  it('fit from a certain length on, and are exact at that length, too', () => {
    const { half } = normalStates(2, width, 11)
    const fits: boolean[] = []
    for (let slackBits = 10 * width; slackBits < 14 * width; slackBits += 8) {
      const tight = new RowCoder({ ...tables, rowBits: 0, slackBits })
      const block = tight.encode(half, 2)
      fits.push(block !== undefined)
      if (block) expect(tight.decode(block, 2)).toEqual(half)
    }
    expect(fits.slice(fits.indexOf(true)).every((fit) => fit)).toBe(true)
    expect(fits).toContain(false)
  })

  it('have the same bytes when they are sent again', () => {
    const states = normalStates(9, width, 5)
    expect(encoded(states, 9)).toEqual(encoded({ ...states, half: states.half.slice() }, 9))
  })

  it('leave the rest of the frame as it is: tree, wide rows and padding', () => {
    const states = normalStates(3, width, 6)
    const wide = { index: [1], values: new Float32Array(width).fill(1e6) }
    const tree = { kept: [0, 2], parents: [-1, 0, 0] }
    const bytes = encodeFrame(fields, { ...states, wide }, { coder, tree, paddedRows: 8 })
    expect(isCoded(bytes)).toBe(true)
    expect(decodeFrame(bytes).tree).toEqual(tree)
    expect(decoded(bytes)).toEqual(withoutHalfOfWide({ ...states, wide }))
  })

  it('tell their reply how much room they have', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300 }), (rows) => {
        expect(codedRows(coder, codedBytes(coder, rows))).toBe(rows)
        if (rows > 0) expect(codedRows(coder, codedBytes(coder, rows) - 1)).toBe(rows - 1)
      }),
    )
    const frame = decodeFrame(encoded(normalStates(2, width, 7), 9))
    expect(paddedRowsOf(frame, width, coder)).toBe(9)
  })
})

describe('a coded frame is refused if', () => {
  const bytes = encoded(normalStates(3, width, 8))
  const refusal =
    (frame: Uint8Array, by: RowCoder | undefined = coder) =>
    () =>
      decodeStates(decodeFrame(frame), width, undefined, by)

  it('the reader has no tables', () => {
    expect(() => decodeStates(decodeFrame(bytes), width)).toThrow(/unknown dtype 3/)
  })

  it('it is truncated, or longer', () => {
    for (let length = headerBytes; length < bytes.length; length++) expect(refusal(bytes.subarray(0, length))).toThrow(/need/)
    expect(refusal(Buffer.concat([bytes, Buffer.alloc(1)]))).toThrow(/bytes after the last row/)
  })

  it('its codes go on behind its end', () => {
    const rare = new RowCoder({ ...tables, rowBits: 0, slackBits: 24 })
    const frame = bytes.slice(0, headerBytes + codedBytes(rare, 3))
    expect(refusal(frame, rare)).toThrow(/longer than the frame/)
  })

  it('it claims more rows than it has bytes for', () => {
    new DataView(bytes.buffer).setUint32(24, 0xffff_ffff, true)
    expect(refusal(bytes)).toThrow(/need/)
    new DataView(bytes.buffer).setUint32(24, 3, true)
  })

  it('anything else is read, or refused as malformed, and never a byte behind it', () => {
    const noise = fc.uint8Array({ minLength: 0, maxLength: 4 * codedBytes(coder, 2) })
    fc.assert(
      fc.property(noise, fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 7 }), (payload, rows, flags) => {
        const frame = Buffer.concat([encodeFrame(fields), payload])
        frame[2] = 3
        frame[3] = flags
        frame.writeUInt32LE(rows, 24)
        const read = (behind: number) => {
          const pool = Buffer.alloc(frame.length + 64, behind)
          pool.set(frame)
          try {
            return decoded(pool.subarray(0, frame.length))
          } catch (error) {
            if (!(error instanceof BrimError)) throw error
            expect(error.code).toBe('FRAME_INVALID')
            return error.message
          }
        }
        expect(read(0xff)).toEqual(read(0))
      }),
    )
  })
})

describe('tables', () => {
  const digits = tables.lengths[0]!
  it.each([
    ['a channel without a table', { channels: 'f'.repeat(width), lengths: [digits] }],
    ['a code of no bits', { lengths: tables.lengths.map((table) => `0${table.slice(1)}`) }],
    ['codes that overlap', { lengths: tables.lengths.map((table) => `1${table.slice(1)}`) }],
    ['codes that leave a gap', { lengths: tables.lengths.map(() => 'b'.repeat(symbolCount)) }],
    ['too few codes', { lengths: tables.lengths.map((table) => table.slice(1)) }],
    ['too many tables', { lengths: Array.from({ length: 17 }, () => digits) }],
    ['rows longer than fp16', { rowBits: 8 * width, slackBits: 0 }],
    ['slack longer than a row', { slackBits: 2 ** 40 }],
    ['no channels', { channels: '' }],
  ])('with %s are refused', (_, fault) => {
    expect(CodingTables.safeParse(tables).success).toBe(true)
    expect(CodingTables.safeParse({ ...tables, ...fault }).success).toBe(false)
  })

  it('have an id that tells models, tables and sizes apart', () => {
    const both = { shallow: tables, deep: tables }
    const other = { ...tables, slackBits: tables.slackBits + 1 }
    const ids = [
      codingId('a', both),
      codingId('b', both),
      codingId('a', { ...both, deep: other }),
      codingId('a', { ...both, shallow: other }),
    ]
    expect(new Set(ids).size).toBe(4)
    expect(codingId('a', structuredClone(both))).toBe(ids[0])
  })
})
