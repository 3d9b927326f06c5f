import { expect, it } from 'vitest'
import { AnswerStarts } from '../../../cloud-bridge/llm/answer-starts.ts'
import type { TokenDelta, TokenEndpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { observe } from '../../../core/answer/endpoint/observe.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { ttftLayout } from '../../../core/policy/disco/estimates.ts'
import { ForgettingHistogram, type HistogramWire } from '../../../core/policy/estimate/forgetting-histogram.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const request = { prompt: new Prompt({ kind: 'text', text: 'Where?' }), sampling: greedy, stop: [], client: 'app' }
const quantile = (wire: HistogramWire | undefined, level: number) =>
  wire && ForgettingHistogram.fromWire(ttftLayout, wire)?.quantile(level)

it('times from requests to first tokens are announced in tens of numbers, at most once a minute', async () => {
  const clock = fakeClock()
  let announced = 0
  const starts = new AnswerStarts(() => {
    announced += 1
  })
  expect(starts.wire).toBeUndefined()
  let waitMs = 0
  const endpoint = {
    model: {},
    async *answer(_: unknown, signal: AbortSignal) {
      await clock.sleep(waitMs, signal)
      yield { tokens: [] as readonly number[], end: undefined } as TokenDelta
      await clock.sleep(5_000, signal)
      yield { tokens: [] as readonly number[], end: 'length' } as TokenDelta
    },
  } as unknown as TokenEndpoint
  const timed = observe(endpoint, clock, (asked) => starts.begin(asked))
  async function answer(ms: number): Promise<void> {
    waitMs = ms
    const deltas = timed.answer(request, new AbortController().signal)
    const first = deltas.next()
    await clock.advance(ms)
    await first
    await deltas.return()
  }
  for (let each = 0; each < 100; each++) await answer(each < 90 ? 100 : 2_000)
  expect(quantile(starts.wire, 0.5)).toBeCloseTo(100, -1)
  expect(quantile(starts.wire, 0.99)).toBeCloseTo(2_000, -2)
  expect(JSON.stringify(starts.wire).length).toBeLessThan(300)
  expect(announced).toBe(1)
  await clock.advance(60_000)
  await answer(100)
  expect(announced).toBe(2)

  // A device that was faster itself cancels: the start would have taken at least as long.
  const lost = new AbortController()
  waitMs = 60_000
  const given = timed.answer(request, lost.signal).next()
  await clock.advance(3_000)
  lost.abort(new Error('lost the race'))
  await expect(given).rejects.toThrow('lost the race')
  expect(quantile(starts.wire, 1)).toBeGreaterThan(3_000)
})
