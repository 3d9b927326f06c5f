import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { arrivalsOf, bufferOf, timeParts, writersOf } from '../../../cloud-bridge/page/trace.ts'
import { noFigures } from '../../../core/answer/endpoint/figures.ts'

const pieces = [
  { atMs: 100, text: 'a', tokens: 1 },
  { atMs: 200, text: 'bcd', tokens: 4 },
  { atMs: 1_200, text: 'e', tokens: 5 },
]

describe('the pieces of an answer', () => {
  it('have the tokens that each brought; without counts, one each', () => {
    expect(arrivalsOf({ pieces }).map(({ fresh }) => fresh)).toEqual([1, 3, 1])
    const uncounted = pieces.map((piece) => ({ ...piece, tokens: undefined }))
    expect(arrivalsOf({ pieces: uncounted }).map(({ tokens }) => tokens)).toEqual([1, 2, 3])
  })

  it('have the writers that the report names: device before side', () => {
    const sources = [
      { from: 0, tokens: 1, source: 'bridge' },
      { from: 1, tokens: 3, source: 'device', device: 'orin-01' },
    ]
    expect(writersOf(arrivalsOf({ pieces }), sources)).toEqual(['bridge', 'orin-01', undefined])
  })
})

describe("the reader's buffer", () => {
  it('grows with each arrival and is read at the rate of the reader', () => {
    const buffer = bufferOf(arrivalsOf({ pieces }), 2, 1_700)
    expect(buffer.map(({ atMs, tokens }) => [atMs, Math.round(tokens * 100) / 100])).toEqual([
      [100, 0],
      [100, 1],
      [200, 0.8],
      [200, 3.8],
      [1_200, 1.8],
      [1_200, 2.8],
      [1_700, 1.8],
    ])
    expect(bufferOf([], 2, 1_700)).toEqual([])
  })

  it('never holds less than nothing or more than has come', () => {
    const anyPiece = fc.record({ afterMs: fc.nat(5_000), fresh: fc.integer({ min: 1, max: 20 }) })
    fc.assert(
      fc.property(fc.array(anyPiece), fc.double({ min: 0.1, max: 100, noNaN: true }), (steps, tokensPerS) => {
        let [atMs, tokens] = [0, 0]
        const arrivals = steps.map(({ afterMs, fresh }) => {
          atMs += afterMs
          tokens += fresh
          return { atMs, fresh, tokens, text: '' }
        })
        for (const { atMs: pointMs, tokens: unread } of bufferOf(arrivals, tokensPerS, atMs)) {
          const come = arrivals.findLast(({ atMs }) => atMs <= pointMs)!.tokens
          expect(unread).toBeGreaterThanOrEqual(0)
          expect(unread).toBeLessThanOrEqual(come)
        }
      }),
    )
  })
})

it('where the time of a HAT answer went follows from its rates; what is unknown has no part', () => {
  const rates = { upBytesPerS: 1_000, downBytesPerS: null, prefillTokensPerS: 100, draftStepMs: 5 }
  const figures = { ...noFigures, rounds: 2, drafted: 8, reusedTokens: 10, bytesUp: 500, bytesDown: 500, rates }
  const report = {
    ...figures,
    mode: 'hat',
    ttftMs: 1,
    tbtMs: { p50: null, p95: null },
    tpotMs: null,
    sources: [],
    fallback: null,
  } as const
  const usage = { prompt_tokens: 30, completion_tokens: 9, total_tokens: 39 }
  expect(timeParts({ report, usage })).toEqual([
    { name: 'prefill on the device', ms: 200 },
    { name: 'drafting', ms: 40 },
    { name: 'sending', ms: 500 },
  ])
  expect(timeParts({ report: { ...report, rounds: 0 }, usage })).toEqual([])
})
