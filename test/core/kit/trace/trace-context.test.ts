import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readTraceparent, writeTraceparent } from '../../../../core/kit/trace/trace-context.ts'
import { passingTracer } from '../../../../core/kit/trace/tracer.ts'

const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']
const given = `00-${traceId}-${spanId}-01`

describe('the header traceparent', () => {
  it('is read as W3C Trace Context says, also that of a later version', () => {
    expect(readTraceparent(given)).toEqual({ traceId, spanId, traceFlags: 1 })
    expect(readTraceparent(`cc-${traceId}-${spanId}-00-more`)).toEqual({ traceId, spanId, traceFlags: 0 })
  })

  it.each([
    undefined,
    '',
    [given, given],
    given.toUpperCase(),
    `${given}-more`,
    `ff-${traceId}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId}-${spanId}`,
    `00-${traceId.slice(1)}-${spanId}-01`,
    ` ${given}`,
  ])('is ignored where it is %j', (header) => {
    expect(readTraceparent(header)).toBeUndefined()
    expect(passingTracer.begin('x', header)).toMatchObject({ traceparent: undefined, traceId: undefined })
  })

  it('is written so that it is read again', () => {
    const hex = (length: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`)).filter((text) => /[1-9a-f]/.test(text))
    fc.assert(
      fc.property(hex(32), hex(16), fc.integer({ min: 0, max: 255 }), (trace, span, traceFlags) => {
        const context = { traceId: trace, spanId: span, traceFlags }
        expect(readTraceparent(writeTraceparent(context))).toEqual(context)
      }),
    )
  })

  it('is handed on as it is by a process that exports nothing', () => {
    expect(passingTracer.begin('x', given)).toMatchObject({ traceparent: given, traceId })
  })
})
