import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { ApiLatency } from '../hardware/api-server.ts'

/** A line of LLMPerf's records; those of failed requests have an error code. */
const Line = z.object({
  error_code: z.unknown().optional(),
  ttft_s: z.number().nonnegative(),
  inter_token_latency_s: z.number().nonnegative(),
})

/**
 * Recorded latencies of a commercial API, as LLMPerf writes them: failed requests are left out.
 * @param file its name, for messages @throws BrimError REQUEST_INVALID naming the line that is wrong
 */
export function parseLatencyTrace(text: string, file: string): ApiLatency[] {
  const unusable = (problem: string, cause?: unknown) =>
    new BrimError('REQUEST_INVALID', `the latencies ${file}: ${problem}`, {
      cause,
      hint: 'each line is an object with ttft_s and inter_token_latency_s, and error_code where a request failed',
    })
  const latencies = text
    .trim()
    .split('\n')
    .flatMap((line, i): ApiLatency[] => {
      try {
        const { error_code: code, ttft_s: ttftS, inter_token_latency_s: tokenS } = Line.parse(JSON.parse(line))
        return code == null ? [{ ttftMs: 1_000 * ttftS, tokenMs: 1_000 * tokenS }] : []
      } catch (cause) {
        throw unusable(`line ${i + 1} is not as expected`, cause)
      }
    })
  if (latencies.length === 0) throw unusable('no request has succeeded')
  return latencies
}
