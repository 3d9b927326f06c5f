import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { admitFrame, type SessionView } from '../../../../core/policy/admission/frame.ts'
import type { FrameHeader } from '../../../../core/wire/protocol/frame.ts'

const limits = { contextLimit: 100, maxRows: 32, maxRepeats: 2 }
const frame = (fields: Partial<FrameHeader>): FrameHeader => ({
  type: 'rows',
  session: 1n,
  epoch: 1,
  seq: 5,
  base: 10,
  n: 4,
  want: 1,
  queueMs: 0,
  computeMs: 0,
  ...fields,
})
const session = (fields: Partial<SessionView> = {}): SessionView => ({
  length: 10,
  lastSeq: 4,
  hasReply: false,
  repeats: 0,
  ...fields,
})
const fault = (code: string) => ({ kind: 'fault', code })

describe('a frame is', () => {
  it.each([
    ['applied at the end', {}, { kind: 'apply' }],
    ['applied after a rollback', { base: 3 }, { kind: 'apply' }],
    ['applied at the first position again', { base: 0 }, { kind: 'apply' }],
    ['applied without rows, as a rollback', { base: 3, n: 0, want: 0 }, { kind: 'apply' }],
    ['applied up to the last position', { base: 10, n: 30, want: 30 }, { kind: 'apply' }],
    ['answered by a gap beyond the length', { base: 11 }, { kind: 'gap', length: 10 }],
    ['rejected when its reply is no longer cached', { seq: 2 }, fault('FRAME_INVALID')],
    ['rejected when it requests more rows than it carries', { n: 4, want: 5 }, fault('FRAME_INVALID')],
    ['rejected with too many rows', { base: 0, n: 33 }, fault('FRAME_INVALID')],
    ['rejected when its type is one that only bridges send', { type: 'deep' as const }, fault('FRAME_INVALID')],
  ])('%s', (_, fields, expected) => {
    expect(admitFrame(frame(fields), session(), limits)).toMatchObject(expected)
  })

  it('answered again when repeated, whatever its base, a limited number of times', () => {
    const repeated = (repeats: number) => admitFrame(frame({ seq: 3, base: 99 }), session({ hasReply: true, repeats }), limits)
    expect(repeated(1)).toEqual({ kind: 'repeat' })
    expect(repeated(2)).toMatchObject({ ...fault('FRAME_INVALID'), message: expect.stringContaining('2 replies at most') })
  })

  it('rejected beyond the context limit, which the message names', () => {
    const full = session({ length: 99 })
    expect(admitFrame(frame({ base: 99, n: 2 }), full, limits)).toMatchObject(fault('CONTEXT_OVERFLOW'))
    expect(admitFrame(frame({ base: 99, n: 1 }), full, limits)).toEqual({ kind: 'apply' })
    expect(admitFrame(frame({ base: 99, n: 2 }), full, limits)).toMatchObject({
      message: expect.stringContaining('limit of 100'),
    })
  })

  it('never applied where it would leave a gap or exceed a limit', () => {
    const u32 = fc.oneof(fc.nat({ max: 130 }), fc.constant(0xffff_ffff))
    fc.assert(
      fc.property(fc.record({ seq: u32, base: u32, n: u32, want: u32 }), fc.nat({ max: 100 }), (fields, length) => {
        const admission = admitFrame(frame(fields), session({ length, lastSeq: undefined }), limits)
        if (admission.kind !== 'apply') return
        expect(fields.base).toBeLessThanOrEqual(length)
        expect(fields.base + fields.n).toBeLessThanOrEqual(limits.contextLimit)
        expect(fields.want).toBeLessThanOrEqual(fields.n)
      }),
    )
  })
})
