import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { decodeFault, encodeFault } from '../../../../core/wire/protocol/fault.ts'
import {
  decodeFrame,
  decodeStates,
  encodeFrame,
  type FrameFields,
  frameTypes,
  frameVersion,
  headerBytes,
  maxFrameBytes,
  maxFrameBytesOf,
  paddedRowsOf,
  peekFrame,
} from '../../../../core/wire/protocol/frame.ts'
import { anyStates } from '../../../support/states.ts'

const u32 = () => fc.integer({ min: 0, max: 0xffff_ffff })
const anyFields = (): fc.Arbitrary<FrameFields> =>
  fc.record({
    type: fc.constantFrom('rows', 'deep', 'gap', 'fault'),
    session: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    epoch: u32(),
    seq: u32(),
    base: u32(),
    want: u32(),
    queueMs: fc.float({ noNaN: true }),
    computeMs: fc.float({ noNaN: true }),
  })

describe('a frame', () => {
  it('decodes to the header and states that were encoded', () => {
    fc.assert(
      fc.property(anyFields(), anyStates(), (fields, states) => {
        const frame = decodeFrame(encodeFrame(fields, states))
        expect(frame).toMatchObject({ ...fields, n: states.rows })
        expect(decodeStates(frame, states.width)).toEqual(states)
      }),
    )
  })

  it('decodes to the same states with padding', () => {
    fc.assert(
      fc.property(anyFields(), anyStates(), fc.integer({ min: 0, max: 12 }), (fields, states, paddedRows) => {
        const bytes = encodeFrame(fields, states, { paddedRows })
        const needed = encodeFrame(fields, states).byteLength
        expect(bytes.byteLength).toBe(Math.max(needed, headerBytes + paddedRows * states.width * 2))
        expect(paddedRowsOf(decodeFrame(bytes), states.width)).toBe(
          Math.floor((bytes.byteLength - headerBytes) / (states.width * 2)),
        )
        expect(paddedRowsOf(decodeFrame(encodeFrame(fields, states)), states.width)).toBeUndefined()
        expect(decodeStates(decodeFrame(bytes), states.width)).toEqual(states)
      }),
    )
  })

  it('carries the tree of its rows, and the accepted rows of the last tree', () => {
    const ascending = fc.uniqueArray(fc.integer({ min: 0, max: 30 }), { maxLength: 9 }).map((rows) => rows.sort((a, b) => a - b))
    const shares = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { minLength: 9, maxLength: 9 })
    fc.assert(
      fc.property(anyFields(), anyStates(), ascending, shares, fc.boolean(), (fields, states, kept, follows, branches) => {
        const all = follows.slice(0, states.rows).map((share, row) => Math.floor(share * (row + 1)) - 1)
        const tree = { kept, parents: branches ? all : [] }
        const bytes = encodeFrame(fields, states, { tree, paddedRows: 5 })
        const frame = decodeFrame(bytes)
        expect(frame.tree).toEqual(tree)
        expect(decodeStates(frame, states.width)).toEqual(states)
      }),
    )
  })

  it.each([
    { what: 'kept rows in another order', kept: [3, 1], parents: [] },
    { what: 'a row that is kept twice', kept: [1, 1], parents: [] },
    { what: 'another number of parents than rows', kept: [], parents: [-1] },
    { what: 'a row that follows itself', kept: [], parents: [-1, 1] },
    { what: 'a row that follows a later one', kept: [], parents: [1, -1] },
    { what: 'an impossible parent', kept: [], parents: [-2, 0] },
  ])('is refused with $what', ({ kept, parents }) => {
    const states = { rows: 2, width: 1, half: Uint16Array.of(1, 2) }
    const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, states, { tree: { kept, parents } })
    expect(() => decodeFrame(bytes)).toThrow(/malformed frame/)
  })

  it('is rejected if its tree is truncated', () => {
    const tree = { kept: [0, 2], parents: [-1, 0, 0] }
    const states = { rows: 3, width: 1, half: Uint16Array.of(1, 2, 3) }
    const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, states, { tree })
    for (let length = headerBytes; length < headerBytes + 14; length++)
      expect(() => decodeFrame(bytes.subarray(0, length))).toThrow(/truncated|of 3/)
  })

  it('decodes from an odd offset in a larger buffer', () => {
    fc.assert(
      fc.property(anyFields(), anyStates(), fc.integer({ min: 1, max: 9 }), (fields, states, offset) => {
        const bytes = encodeFrame(fields, states)
        const pool = new Uint8Array(bytes.length + 2 * offset).fill(0xee)
        pool.set(bytes, offset)
        const frame = decodeFrame(pool.subarray(offset, offset + bytes.length))
        expect(decodeStates(frame, states.width)).toEqual(states)
      }),
    )
  })

  it('copies its states out of the receive buffer', () => {
    const bytes = encodeFrame(
      { type: 'rows', session: 1n, epoch: 1, seq: 1 },
      { rows: 1, width: 2, half: Uint16Array.of(15_360, 16_384) },
    )
    const states = decodeStates(decodeFrame(bytes), 2)
    bytes.fill(0)
    expect([...states.half]).toEqual([15_360, 16_384])
  })

  it('has the layout that the header documents', () => {
    const bytes = encodeFrame(
      { type: 'rows', session: 0x0102_0304_0506_0708n, epoch: 2, seq: 3, base: 4, want: 5, queueMs: 1.5, computeMs: 2.5 },
      { rows: 1, width: 2, half: Uint16Array.of(0x3c00, 0xbc00) },
    )
    const header = '01 01 01 00 02000000 0807060504030201 03000000 04000000 01000000 05000000 0000c03f 00002040'.replaceAll(
      ' ',
      '',
    )
    expect(Buffer.from(bytes).toString('hex')).toBe(`${header}003c00bc`)
  })

  it('treats an empty list of wide rows as none', () => {
    const states = { rows: 1, width: 1, half: Uint16Array.of(7), wide: { index: [], values: new Float32Array(0) } }
    const frame = decodeFrame(encodeFrame({ type: 'deep', session: 1n, epoch: 0, seq: 0 }, states))
    expect(frame.flags).toBe(0)
    expect(decodeStates(frame, 1)).toEqual({ rows: 1, width: 1, half: Uint16Array.of(7) })
  })

  it('of the largest prefill chunk stays under the limit', () => {
    expect(headerBytes + 2_048 * 8_192 * 2).toBeLessThanOrEqual(maxFrameBytes)
  })
})

describe('an invalid frame', () => {
  it('is rejected with FRAME_INVALID or PROTOCOL_VERSION, whatever its bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.integer({ min: 1, max: 64 }), (bytes, width) => {
        refusedOrRead(bytes, width)
      }),
      { numRuns: 2_000 },
    )
  })

  it('made by truncating or changing a valid one is rejected, or still valid', () => {
    const damage = fc.record({
      cut: fc.option(fc.nat()),
      changes: fc.array(fc.record({ at: fc.nat(), to: fc.integer({ min: 0, max: 255 }) }), { maxLength: 6 }),
    })
    fc.assert(
      fc.property(anyFields(), anyStates(), damage, (fields, states, { cut, changes }) => {
        const whole = encodeFrame(fields, states)
        const bytes = cut === null ? whole : whole.slice(0, cut % whole.length)
        for (const { at, to } of changes) if (bytes.length > 0) bytes[at % bytes.length] = to
        refusedOrRead(bytes, states.width)
      }),
      { numRuns: 2_000 },
    )
  })

  it('cannot make the reader allocate memory for rows that it does not contain', () => {
    const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, { rows: 1, width: 4, half: new Uint16Array(4) })
    new DataView(bytes.buffer).setUint32(24, 0xffff_ffff, true)
    expect(() => decodeStates(decodeFrame(bytes), 8_192)).toThrow(/need 70368744161280 bytes/)
  })

  it.each([
    ['a newer version', 0, frameVersion + 1, 'PROTOCOL_VERSION'],
    ['an unknown type', 1, 99, 'FRAME_INVALID'],
    ['an unknown dtype', 2, 9, 'FRAME_INVALID'],
    ['unknown flags', 3, 0x80, 'FRAME_INVALID'],
  ])('is %s', (_, at, value, code) => {
    const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, { rows: 1, width: 1, half: Uint16Array.of(1) })
    bytes[at] = value
    expect(codeOf(() => decodeStates(decodeFrame(bytes), 1))).toBe(code)
  })

  it.each([
    ['more wide rows than rows', [3, 0, 0], 'wide rows in a block'],
    ['no wide rows', [0], 'wide rows in a block'],
    ['wide rows out of order', [2, 1, 0, 5, 5], 'out of order'],
    ['a wide row beyond the block', [1, 2, 5], 'out of range'],
    ['fewer wide values than announced', [1, 0], 'do not fill'],
  ])('has %s', (_, words, why) => {
    const plain = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, { rows: 2, width: 1, half: new Uint16Array(2) })
    plain[3] = 1
    const bytes = Buffer.concat([plain, Buffer.from(Uint32Array.from(words).buffer)])
    expect(() => decodeStates(decodeFrame(bytes), 1)).toThrow(why)
  })

  it('is padded beyond the rows that the reader allows', () => {
    const states = { rows: 2, width: 2, half: new Uint16Array(4) }
    const fields = { type: 'rows', session: 1n, epoch: 1, seq: 1 } as const
    const decode = (paddedRows: number, wire: 'fp16' | 'int8') =>
      decodeStates(decodeFrame(encodeFrame({ ...fields, base: 1 }, states, { paddedRows, wire })), 2, 5)
    for (const wire of ['fp16', 'int8'] as const) {
      expect(decode(5, wire)).toEqual(states)
      expect(() => decode(6, wire)).toThrow(/padded by/)
    }
    // Rows that need more than the allowed length are no padding.
    const long = { rows: 6, width: 2, half: new Uint16Array(12) }
    const wide = { ...states, wide: { index: [0, 1], values: new Float32Array(4) } }
    for (const rows of [long, wide])
      expect(decodeStates(decodeFrame(encodeFrame(fields, rows, { paddedRows: 3 })), 2, 5)).toEqual(rows)
  })

  it('is never longer than the largest frame of its rows, in any form', () => {
    const tree = { kept: [0, 1, 2], parents: [-1, 0, 1] }
    const wide = { index: [0, 1, 2], values: new Float32Array(3 * 4) }
    const states = { rows: 3, width: 4, half: new Uint16Array(12), wide }
    for (const wire of ['fp16', 'int8'] as const) {
      const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1 }, states, { wire, tree })
      expect(bytes.byteLength).toBeLessThanOrEqual(maxFrameBytesOf(3, 4))
    }
    expect(maxFrameBytesOf(2_048, 8_192)).toBe(maxFrameBytes)
  })

  it('still yields session and seq if its header is complete', () => {
    const bytes = encodeFrame({ type: 'rows', session: 77n, epoch: 2, seq: 3 })
    bytes[1] = 200
    expect(peekFrame(bytes)).toEqual({ session: 77n, epoch: 2, seq: 3 })
    expect(peekFrame(bytes.subarray(0, headerBytes - 1))).toEqual({ session: 0n, epoch: 0, seq: 0 })
  })
})

describe('a fault', () => {
  it('carries code and message', () => {
    const frame = decodeFrame(encodeFault({ session: 5n, epoch: 1, seq: 9 }, { code: 'FRAME_INVALID', message: 'row 3 ü' }))
    expect(frame).toMatchObject({ type: 'fault', session: 5n, epoch: 1, seq: 9 })
    expect(decodeFault(frame)).toEqual({ code: 'FRAME_INVALID', message: 'row 3 ü' })
  })

  it('with any other payload is rejected', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (payload) => {
        const frame = decodeFrame(encodeFrame({ type: 'fault', session: 1n, epoch: 1, seq: 1 }, payload))
        expect(codeOf(() => decodeFault(frame))).toBe('FRAME_INVALID')
      }),
    )
  })
})

/** Reads the bytes; allows only the two errors that the protocol names. */
function refusedOrRead(bytes: Uint8Array, width: number): void {
  try {
    const frame = decodeFrame(bytes)
    expect(Object.hasOwn(frameTypes, frame.type)).toBe(true)
    const states = decodeStates(frame, width)
    expect(states.half.length).toBe(states.rows * width)
    expect(states.wide?.values.length).toBe(states.wide && states.wide.index.length * width)
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    expect(['FRAME_INVALID', 'PROTOCOL_VERSION']).toContain(error.code)
  }
}

function codeOf(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    if (error instanceof BrimError) return error.code
    throw error
  }
  return 'none'
}
