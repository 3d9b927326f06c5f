import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delayAt, type Knot } from '../../../../core/policy/estimate/monotone-curve.ts'
import { chunkSize, hasMoved, nextChunk, tokenSeconds } from '../../../../core/policy/hat/chunk-size.ts'

const limits = { least: 16, most: 512 }
/** 10 ms a step and 0.1 ms a token. */
const line: Knot[] = [
  { tokens: 1, delayS: 0.0101 },
  { tokens: 1024, delayS: 0.1124 },
]
const conditions = { tokenS: 0.0008, g: line, batchTokens: 0, pipeline: 1 }

const anyG = fc
  .array(fc.record({ tokens: fc.integer({ min: 1, max: 2048 }), delayS: fc.double({ min: 1e-4, max: 0.2, noNaN: true }) }), {
    minLength: 1,
    maxLength: 8,
  })
  .map((knots) => {
    const tokens = [...new Set(knots.map((knot) => knot.tokens))].sort((a, b) => a - b)
    const delays = knots.map(({ delayS }) => delayS).sort((a, b) => a - b)
    return tokens.map((at, i) => ({ tokens: at, delayS: delays[i]! }))
  })
const anyConditions = fc.record({
  tokenS: fc.double({ min: 1e-6, max: 0.01, noNaN: true }),
  g: anyG,
  batchTokens: fc.integer({ min: 0, max: 64 }),
  pipeline: fc.integer({ min: 1, max: 4 }),
})

/** Prefill as Eq. 3 sees it: chunks arrive one after another, each is computed when it is there and the one before is done. */
function prefillS(prompt: number, chunk: number, { tokenS, g, batchTokens, pipeline }: typeof conditions): number {
  let done = 0
  for (let from = 0, to: number; from < prompt; from = to) {
    to = from + nextChunk(prompt - from, chunk, prompt)
    const computeS = (delayAt(g, batchTokens) + delayAt(g, batchTokens + to - from)) / pipeline
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
    { what: 'is the least where the link is slower than any step', tokenS: 0.01, chunk: 16 },
    { what: 'is the most where the link is faster than any step', tokenS: 0.00001, chunk: 512 },
    {
      what: 'is the first root where a hinge makes two',
      tokenS: 0.0005,
      chunk: 40,
      g: [
        { tokens: 1, delayS: 0.01 },
        { tokens: 64, delayS: 0.01 },
        { tokens: 128, delayS: 0.2 },
      ],
    },
  ])('$what', ({ tokenS, chunk, g = line }) => {
    expect(chunkSize({ ...conditions, tokenS, g }, limits)).toBe(chunk)
  })

  it('is the least while nothing is known of the cloud', () => {
    expect(chunkSize({ ...conditions, tokenS: 0, g: [] }, limits)).toBe(limits.least)
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

  it('never makes prefill longer than sending the prompt whole, where the cloud takes it whole', () => {
    fc.assert(
      fc.property(anyConditions, fc.integer({ min: 1, max: limits.most }), (any, prompt) => {
        const chunk = chunkSize(any, { least: Math.min(limits.least, prompt), most: prompt })
        expect(prefillS(prompt, chunk, any)).toBeLessThanOrEqual(prefillS(prompt, prompt, any) * (1 + 1e-9))
      }),
    )
  })
})

describe('deciding anew', () => {
  it('happens when a value has moved by more than a fifth, either way', () => {
    expect([79, 80, 120, 121].map((now) => hasMoved(100, now))).toEqual([true, false, false, true])
  })
})
