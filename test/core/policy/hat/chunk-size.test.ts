import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { StepLine } from '../../../../core/policy/estimate/state-monitor.ts'
import { chunkSize, hasMoved, nextChunk, tokenSeconds } from '../../../../core/policy/hat/chunk-size.ts'

const limits = { minTokens: 16, maxTokens: 512 }
/** 10 ms a step and 0.1 ms a token. */
const line: StepLine = { baseS: 0.01, tokenS: 0.0001 }
const conditions = { tokenS: 0.0008, g: line, batchTokens: 0, pipeline: 1 }

const seconds = (max: number) => fc.double({ min: 0, max, noNaN: true })
const anyConditions = fc.record({
  tokenS: fc.double({ min: 1e-6, max: 0.01, noNaN: true }),
  g: fc.record({ baseS: seconds(0.2), tokenS: seconds(0.001) }),
  batchTokens: fc.integer({ min: 0, max: 64 }),
  pipeline: fc.integer({ min: 1, max: 4 }),
})
const valueAt = (g: StepLine, x: number) => g.baseS + x * g.tokenS

/** Prefill as Eq. 3 models it: a chunk is computed once it has arrived and the one before it is done. */
function prefillS(prompt: number, chunk: number, { tokenS, g, batchTokens, pipeline }: typeof conditions): number {
  let done = 0
  for (let from = 0, to: number; from < prompt; from = to) {
    to = from + nextChunk(prompt - from, chunk, prompt)
    const computeS = (valueAt(g, batchTokens) + valueAt(g, batchTokens + to - from)) / pipeline
    done = Math.max(done, to * tokenS) + computeS
  }
  return done
}

describe('the size of a chunk', () => {
  it('balances sending and computing (Eq. 3)', () => {
    // 0.0008·X = 0.0100 + 0.0100 + 0.0001·X at X = 28.6
    expect(chunkSize(conditions, limits)).toBe(29)
  })

  it.each([
    { what: 'is the minimum where the link is slower than any step', tokenS: 0.01, chunk: 16 },
    { what: 'is the maximum where the link is faster than any step', tokenS: 0.00001, chunk: 512 },
    { what: 'is the maximum where a token is computed slower than it is sent', tokenS: 0.0001, chunk: 512 },
  ])('$what', ({ tokenS, chunk }) => {
    expect(chunkSize({ ...conditions, tokenS }, limits)).toBe(chunk)
  })

  it('is the minimum where steps take no time', () => {
    expect(chunkSize({ ...conditions, g: { baseS: 0, tokenS: 0 } }, limits)).toBe(limits.minTokens)
  })

  it('grows with the uplink and shrinks with the bytes of a state', () => {
    const rates = fc.tuple(fc.double({ min: 1e4, max: 1e8, noNaN: true }), fc.double({ min: 1, max: 10, noNaN: true }))
    fc.assert(
      fc.property(anyConditions, rates, fc.integer({ min: 64, max: 16_384 }), (any, [up, factor], bytes) => {
        const size = (bytesPerToken: number, upBytesPerS: number) =>
          chunkSize({ ...any, tokenS: tokenSeconds(bytesPerToken, upBytesPerS, 1e9) }, limits)
        expect(size(bytes, up * factor)).toBeGreaterThanOrEqual(size(bytes, up))
        expect(size(bytes * factor, up)).toBeLessThanOrEqual(size(bytes, up))
      }),
    )
  })

  it('never makes prefill longer than one chunk for the whole prompt does', () => {
    fc.assert(
      fc.property(anyConditions, fc.integer({ min: 1, max: limits.maxTokens }), (any, prompt) => {
        const chunk = chunkSize(any, { minTokens: Math.min(limits.minTokens, prompt), maxTokens: prompt })
        expect(prefillS(prompt, chunk, any)).toBeLessThanOrEqual(prefillS(prompt, prompt, any) * (1 + 1e-9))
      }),
    )
  })
})

describe('a revised decision', () => {
  it('is due when a value has moved by more than a fifth, either way', () => {
    expect([79, 80, 120, 121].map((now) => hasMoved(100, now))).toEqual([true, false, false, true])
  })
})
