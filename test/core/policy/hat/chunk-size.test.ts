import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { StepLine } from '../../../../core/policy/estimate/state-monitor.ts'
import {
  chunkSize,
  growingChunk,
  hasMoved,
  isLinkBound,
  nextChunk,
  tokenSeconds,
} from '../../../../core/policy/hat/chunk-size.ts'

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

type NextChunk = (left: number, chunk: number, before: number, maxTokens: number) => number
const equal: NextChunk = (left, chunk, _, maxTokens) => nextChunk(left, chunk, maxTokens)

/**
 * Prefill as Eq. 3 models it: a chunk is computed once it has arrived and the one before it is done. A chunk is sent once the device
 * has computed it, which takes `deviceS` a token, and the one before it is sent.
 */
function prefill(
  prompt: number,
  chunk: number,
  { tokenS, g, batchTokens, pipeline }: typeof conditions,
  next = equal,
  deviceS = 0,
) {
  let [done, sent, computed, before] = [0, 0, 0, 0]
  const chunks: number[] = []
  for (let left = prompt; left > 0; left -= before) {
    before = next(left, chunk, before, prompt)
    chunks.push(before)
    computed += before * deviceS
    sent = Math.max(sent, computed) + before * tokenS
    const computeS = (valueAt(g, batchTokens) + valueAt(g, batchTokens + before)) / pipeline
    done = Math.max(done, sent) + computeS
  }
  return { seconds: done, chunks }
}
const prefillS = (prompt: number, chunk: number, of: typeof conditions) => prefill(prompt, chunk, of).seconds

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

describe('chunks that grow while the link limits a prompt', () => {
  it('double from X, and shrink to X by halves', () => {
    const { chunks } = prefill(1_000, 16, conditions, growingChunk)
    expect(chunks).toEqual([16, 32, 64, 128, 256, 252, 126, 63, 31, 16, 16])
    // Fifty-eight steps of the cloud less.
    expect(prefill(1_000, 16, conditions).chunks).toHaveLength(62)
  })

  it('bring a prompt to its end no later than equal ones, in no more steps, where the device computes twice as fast as the link', () => {
    const prompts = fc.integer({ min: 1, max: 4_000 })
    fc.assert(
      fc.property(anyConditions, prompts, fc.double({ min: 2, max: 100, noNaN: true }), (any, prompt, faster) => {
        const of = { ...any, pipeline: 1 }
        const chunk = chunkSize(of, { minTokens: 16, maxTokens: 512 })
        // X is the root of Eq. 3, or larger. A step without fixed time would gain nothing by larger chunks.
        fc.pre(chunk < 512 && of.g.baseS >= of.g.tokenS)
        const deviceS = of.tokenS / faster
        const [grown, same] = [prefill(prompt, chunk, of, growingChunk, deviceS), prefill(prompt, chunk, of, equal, deviceS)]
        expect(grown.chunks.reduce((sum, each) => sum + each, 0)).toBe(prompt)
        expect(grown.chunks.length).toBeLessThanOrEqual(same.chunks.length)
        expect(Math.max(...grown.chunks.slice(-1))).toBeLessThan(2 * chunk)
        // Not by more than a step of the largest of its last chunks takes beyond one of X.
        expect(grown.seconds).toBeLessThanOrEqual((same.seconds + (valueAt(of.g, 4 * chunk) - valueAt(of.g, chunk))) * (1 + 1e-9))
      }),
    )
  })

  it('are for a link that is known to be slower than half of the device', () => {
    const pace = { bytesPerToken: 8_192, upBytesPerS: 8.192e6, prefillTokensPerS: 2_000 }
    expect([pace, { ...pace, prefillTokensPerS: 1_999 }].map(isLinkBound)).toEqual([true, false])
    expect(isLinkBound({ ...pace, upBytesPerS: undefined })).toBe(false)
    expect(isLinkBound({ ...pace, prefillTokensPerS: undefined })).toBe(false)
  })
})

describe('a revised decision', () => {
  it('is due when a value has moved by more than a fifth, either way', () => {
    expect([79, 80, 120, 121].map((now) => hasMoved(100, now))).toEqual([true, false, false, true])
  })
})
