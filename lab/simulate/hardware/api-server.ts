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

/** @param recorded of requests; undefined: first tokens and gaps are drawn, unrelated to each other */
export const apiServer = (
  { ttftMs, tokenMs }: { readonly ttftMs: Distribution; readonly tokenMs: Distribution },
  recorded?: readonly ApiLatency[],
): ApiServer => ({
  draw: (random) =>
    recorded
      ? recorded[Math.floor(random.next() * recorded.length)]!
      : { ttftMs: draw(ttftMs, random), tokenMs: draw(tokenMs, random) },
})
