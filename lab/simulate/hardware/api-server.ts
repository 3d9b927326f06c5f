import type { Random } from '../../../core/kit/base/random.ts'
import { type Distribution, draw } from '../scenario/distribution.ts'

/** What a commercial API does with one request. */
export interface ApiLatency {
  readonly ttftMs: number
  /** Between its tokens. */
  readonly tokenMs: number
}

/** A commercial API: the latency of a request is drawn from recorded ones, or from a distribution. */
export interface ApiServer {
  draw(random: Random): ApiLatency
}

export const recordedServer = (latencies: readonly ApiLatency[]): ApiServer => ({
  draw: (random) => latencies[Math.floor(random.next() * latencies.length)]!,
})

/** First tokens and gaps are not related. */
export const distributedServer = (ttftMs: Distribution, tokenMs: Distribution): ApiServer => ({
  draw: (random) => ({ ttftMs: draw(ttftMs, random), tokenMs: draw(tokenMs, random) }),
})
