import type { Random } from '../../../core/base/random.ts'

/** What a commercial API does with one request. */
export interface ApiLatency {
  readonly ttftMs: number
  /** Between its tokens. */
  readonly tokenMs: number
}

/** A commercial API: the latency of a request is drawn from recorded ones, or from a distribution. */
export interface ApiServer {
  readonly name: string
  draw(random: Random): ApiLatency
}
