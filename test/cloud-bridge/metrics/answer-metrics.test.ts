import { describe, expect, it } from 'vitest'
import { createBridgeMetrics } from '../../../cloud-bridge/metrics/bridge-metrics.ts'
import type { Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { observe } from '../../../core/answer/endpoint/observe.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts'

const request = {
  prompt: new Prompt({ kind: 'text', text: 'a prompt' }),
  sampling: greedy,
  stop: [],
  client: 'c',
  tokensPerS: 10,
}

/** Sends its tokens at these times; each gap is that of the clock. */
function timedEndpoint(clock: FakeClock, gapsMs: readonly number[], last: 'end' | 'failure' = 'end'): Endpoint {
  const model = { name: 'm' }
  return {
    model,
    async *answer() {
      for (const [at, gapMs] of gapsMs.entries()) {
        await clock.advance(gapMs)
        const isLast = at === gapsMs.length - 1
        if (isLast && last === 'failure') throw new BrimError('LINK_LOST', 'gone')
        const promptTokens = isLast ? 7 : 0
        yield {
          source: { kind: 'upstream', model },
          text: 'x',
          tokenCount: 1,
          promptTokens: at === 0 ? 7 : promptTokens,
          end: isLast ? 'length' : undefined,
        }
      }
    },
  }
}

async function valuesAfter(run: (measured: (endpoint: Endpoint) => Endpoint, clock: FakeClock) => Promise<void>) {
  const clock = fakeClock()
  const metrics = createBridgeMetrics(5)
  await run((endpoint) => observe(endpoint, clock, (asked) => metrics.onAnswer(asked)), clock)
  const lines = (await metrics.text()).split('\n')
  /** The value of a sample, by the beginning of its line. */
  return (sample: string) =>
    Number(
      lines
        .find((line) => line.startsWith(`${sample} `))
        ?.split(' ')
        .at(-1),
    )
}

async function readAll(endpoint: Endpoint, signal = new AbortController().signal): Promise<void> {
  for await (const _ of endpoint.answer(request, signal));
}

const model = 'model_name="m"'

describe('an answer of the bridge', () => {
  it('is counted with the time to its first token, the gaps after it, and its tokens', async () => {
    const value = await valuesAfter((measured, clock) => readAll(measured(timedEndpoint(clock, [800, 30, 30, 2_000]))))
    expect(value(`brim_requests_total{${model},finished_reason="length"}`)).toBe(1)
    expect(value(`brim_prompt_tokens_total{${model}}`)).toBe(7)
    expect(value(`brim_generation_tokens_total{${model}}`)).toBe(4)
    expect(value(`brim_time_to_first_token_seconds_sum{${model}}`)).toBeCloseTo(0.8)
    expect(value(`brim_inter_token_latency_seconds_count{${model}}`)).toBe(3)
    expect(value(`brim_inter_token_latency_seconds_bucket{le="0.05",${model}}`)).toBe(2)
    expect(value(`brim_e2e_request_latency_seconds_sum{${model}}`)).toBeCloseTo(2.86)
  })

  it('shows where its reader had to wait, and which tokens came too early to count', async () => {
    // At 10 tokens/s: the buffer holds three tokens and is empty 240 ms before the last comes, after 2 s.
    const value = await valuesAfter((measured, clock) => readAll(measured(timedEndpoint(clock, [800, 30, 30, 2_000]))))
    expect(value(`brim_reader_stalls_total{${model}}`)).toBe(1)
    expect(value(`brim_reader_stall_seconds_total{${model}}`)).toBeCloseTo(2.86 - 0.8 - 0.3)
    // The second token joins 0.7 unread ones, 17.5 % of the answer: a quarter counts. The third joins 1.4: nothing.
    expect(value(`brim_effective_tokens_total{${model}}`)).toBeCloseTo(2.25)
  })

  it('leaves behind when it was asked for and how long it was, unless it had no token', async () => {
    const clock = fakeClock()
    const metrics = createBridgeMetrics(5)
    const measured = (endpoint: Endpoint) => observe(endpoint, clock, (asked) => metrics.onAnswer(asked))
    const startMs = clock.nowMs()
    await readAll(measured(timedEndpoint(clock, [800, 30])))
    await readAll(measured(timedEndpoint(clock, [10], 'failure'))).catch(() => {})
    metrics.sizes.add({ atMs: startMs - 5, promptTokens: 1, outputTokens: 2 })
    expect(metrics.sizes.list()).toEqual([
      { atMs: startMs - 5, promptTokens: 1, outputTokens: 2 },
      { atMs: startMs, promptTokens: 7, outputTokens: 2 },
    ])
    for (let at = 0; at < 3_000; at += 1) metrics.sizes.add({ atMs: startMs + 1_000 + at, promptTokens: 1, outputTokens: 1 })
    expect(metrics.sizes.list()).toHaveLength(2_000)
    expect(metrics.sizes.list()[0]!.atMs).toBe(startMs + 2_000)
  })

  it('counts as waiting until its first token, then as running, and as neither after its end', async () => {
    const seen: (readonly [number, number])[] = []
    const clock = fakeClock()
    const metrics = createBridgeMetrics(5)
    const now = async () => {
      const text = await metrics.text()
      const read = (name: string) => Number(new RegExp(`^${name}{${model}} (\\S+)`, 'm').exec(text)?.[1] ?? 0)
      seen.push([read('brim_num_requests_waiting'), read('brim_num_requests_running')])
    }
    const endpoint = timedEndpoint(clock, [10, 10])
    const watched: Endpoint = {
      ...endpoint,
      async *answer(...args) {
        await now()
        yield* endpoint.answer(...args)
      },
    }
    for await (const _ of observe(watched, clock, (asked) => metrics.onAnswer(asked)).answer(
      request,
      new AbortController().signal,
    ))
      await now()
    await now()
    expect(seen).toEqual([
      [1, 0],
      [0, 1],
      [0, 1],
      [0, 0],
    ])
  })

  it('that fails ends as "error"', async () => {
    const value = await valuesAfter(async (measured, clock) => {
      await expect(readAll(measured(timedEndpoint(clock, [10, 10], 'failure')))).rejects.toThrow('gone')
    })
    expect(value(`brim_requests_total{${model},finished_reason="error"}`)).toBe(1)
    expect(value(`brim_num_requests_running{${model}}`)).toBe(0)
  })

  it('that its client leaves ends as "abort"', async () => {
    const value = await valuesAfter(async (measured, clock) => {
      const answer = measured(timedEndpoint(clock, [10, 10])).answer(request, new AbortController().signal)
      await answer.next()
      await answer.return()
    })
    expect(value(`brim_requests_total{${model},finished_reason="abort"}`)).toBe(1)
    expect(value(`brim_num_requests_running{${model}}`)).toBe(0)
  })
})
