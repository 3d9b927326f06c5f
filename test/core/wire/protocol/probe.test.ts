import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { encodeFrame } from '../../../../core/wire/protocol/frame.ts'
import { decodeProbe, encodeProbe, isProbe, maxProbeBytes } from '../../../../core/wire/protocol/probe.ts'

const anyProbe = fc
  .record({ seq: fc.nat(), want: fc.nat(), payload: fc.uint8Array({ maxLength: 300 }) })
  .map(({ seq, want, payload }) => ({ seq, want: want % (payload.length + 1), payload }))

describe('a probe', () => {
  it('decodes to what was encoded', () => {
    fc.assert(
      fc.property(anyProbe, (probe) => {
        const bytes = encodeProbe(probe)
        expect(isProbe(bytes)).toBe(true)
        expect(decodeProbe(bytes)).toEqual(probe)
      }),
    )
  })

  it('differs from the frames of sessions', () => {
    expect(isProbe(encodeFrame({ type: 'probe', session: 1n, epoch: 1, seq: 1 }))).toBe(false)
    expect(isProbe(encodeFrame({ type: 'rows', session: 0n, epoch: 0, seq: 1 }))).toBe(false)
    expect(isProbe(encodeProbe({ seq: 1, want: 0, payload: new Uint8Array() }).subarray(0, 39))).toBe(false)
  })

  it('is rejected if it is too large, or requests a longer reply than itself', () => {
    const largest = new Uint8Array(maxProbeBytes)
    expect(decodeProbe(encodeProbe({ seq: 1, want: maxProbeBytes, payload: largest })).want).toBe(maxProbeBytes)
    const tooLarge = encodeProbe({ seq: 1, want: 0, payload: new Uint8Array(maxProbeBytes + 1) })
    expect(() => decodeProbe(tooLarge)).toThrow('the limit is')
    expect(() => decodeProbe(encodeProbe({ seq: 1, want: 11, payload: largest.subarray(0, 10) }))).toThrow(
      'requests a reply of 11',
    )
  })

  it('is rejected with FRAME_INVALID, or still valid, if bytes are changed', () => {
    const changes = fc.array(fc.record({ at: fc.nat(), to: fc.integer({ min: 0, max: 255 }) }), { maxLength: 6 })
    fc.assert(
      fc.property(anyProbe, changes, (probe, damage) => {
        const bytes = encodeProbe(probe)
        for (const { at, to } of damage) bytes[at % bytes.length] = to
        if (!isProbe(bytes)) return
        try {
          const { want, payload } = decodeProbe(bytes)
          expect(want).toBeLessThanOrEqual(payload.length)
        } catch (error) {
          expect(error).toBeInstanceOf(BrimError)
          expect((error as BrimError).code).toBe('FRAME_INVALID')
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
