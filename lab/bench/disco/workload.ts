import type { Random } from '../../../core/kit/base/random.ts'
import type { ApiLatency } from '../../simulate/hardware/api-server.ts'
import type { Shape } from './data.ts'

/** A request of the replay, with everything that chance decides about it, the same for each method. */
export interface ReplayRequest extends Shape {
  /** Since the workload began. */
  readonly atMs: number
  /** What the server does with it. */
  readonly server: ApiLatency
  /** Likewise, where it is asked once more: to go on with an answer that the device began. */
  readonly serverAgain: ApiLatency
  /** Uniform in [0, 1): routers by chance give it to the constrained side where it is below their budget. */
  readonly chance: number
}

/** Mean time between requests (DiSCo §3). */
export const meanGapMs = 30_000

/** Requests of a Poisson process. Shapes and latencies are drawn with replacement, independently: they are not related on servers. */
export function requestsOf(
  shapes: readonly Shape[],
  latencies: readonly ApiLatency[],
  count: number,
  random: { readonly shapes: Random; readonly latencies: Random },
): ReplayRequest[] {
  let atMs = 0
  return Array.from({ length: count }, () => {
    atMs += -Math.log(1 - random.shapes.next()) * meanGapMs
    const { promptTokens, outputTokens } = drawn(shapes, random.shapes)
    const [server, serverAgain] = [drawn(latencies, random.latencies), drawn(latencies, random.latencies)]
    return { atMs, promptTokens, outputTokens, chance: random.shapes.next(), server, serverAgain }
  })
}

export const drawn = <T>(items: readonly T[], random: Random): T => items[Math.floor(random.next() * items.length)]!
