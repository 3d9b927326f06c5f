import { describe, expect, it } from 'vitest'
import { parseLatencyTrace } from '../../../../lab/simulate/traces/latency-trace.ts'

describe('recorded latencies of an API', () => {
  const ok = JSON.stringify({ error_code: null, ttft_s: 0.5, inter_token_latency_s: 0.02, other: 1 })
  const failed = JSON.stringify({ error_code: 500, ttft_s: 0, inter_token_latency_s: 0 })

  it('are read in ms, without those of failed requests', () => {
    expect(parseLatencyTrace(`${ok}\n${failed}\n${ok}\n`, 'x.jsonl')).toEqual([
      { ttftMs: 500, tokenMs: 20 },
      { ttftMs: 500, tokenMs: 20 },
    ])
  })

  it('name the line that is wrong', () => {
    expect(() => parseLatencyTrace(`${ok}\n{}`, 'x.jsonl')).toThrow('the latencies x.jsonl: line 2 is not as expected')
    expect(() => parseLatencyTrace(failed, 'x.jsonl')).toThrow('no request has succeeded')
  })
})
