import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Knot, valueAt } from '../../../../core/policy/estimate/monotone-curve.ts'
import { chunkSize, hasMoved, nextChunk, tokenSeconds } from '../../../../core/policy/hat/chunk-size.ts'

const limits = { minTokens: 16, maxTokens: 512 }
/** 10 ms a step and 0.1 ms a token. */
const line: Knot[] = [
  { x: 1, y: 0.0101 },
  { x: 1024, y: 0.1124 },
]
const conditions = { tokenS: 0.0008, g: line, batchTokens: 0, pipeline: 1 }

const anyG = fc
  .array(fc.record({ x: fc.integer({ min: 1, max: 2048 }), y: fc.double({ min: 1e-4, max: 0.2, noNaN: true }) }), {
    minLength: 1,
    maxLength: 8,
  })
  .map((knots) => {
    const xs = [...new Set(knots.map(({ x }) => x))].sort((a, b) => a - b)
    const ys = knots.map(({ y }) => y).sort((a, b) => a - b)
    return xs.map((x, at) => ({ x, y: ys[at]! }))
  })
const anyConditions = fc.record({
  tokenS: fc.double({ min: 1e-6, max: 0.01, noNaN: true }),
  g: anyG,
  batchTokens: fc.integer({ min: 0, max: 64 }),
  pipeline: fc.integer({ min: 1, max: 4 }),
})

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
    // 0.0008·X = 0.0101 + 0.0100 + 0.0001·X at X = 28.7
    expect(chunkSize(conditions, limits)).toBe(29)
  })

  it.each([
    { what: 'is the minimum where the link is slower than any step', tokenS: 0.01, chunk: 16 },
    { what: 'is the maximum where the link is faster than any step', tokenS: 0.00001, chunk: 512 },
    {
      what: 'is the first root if a bend of g makes two',
      tokenS: 0.0005,
      chunk: 40,
      g: [
        { x: 1, y: 0.01 },
        { x: 64, y: 0.01 },
        { x: 128, y: 0.2 },
      ],
    },
  ])('$what', ({ tokenS, chunk, g = line }) => {
    expect(chunkSize({ ...conditions, tokenS, g }, limits)).toBe(chunk)
  })

  it('is the minimum before the first cloud step', () => {
    expect(chunkSize({ ...conditions, tokenS: 0, g: [] }, limits)).toBe(limits.minTokens)
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
