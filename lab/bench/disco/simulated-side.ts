import type { Latency } from './data.ts'
import { type DeviceProfile, deviceTtftMs } from './profiles.ts'
import type { ReplayRequest } from './workload.ts'

/** One side of an answer on the virtual clock: when its tokens come. Mutable. */
export interface SimulatedSide {
  /** Its next token; Infinity while it does not work. */
  readonly nextMs: number
  /** @param tokens of the prompt, and of the answer so far */
  start(nowMs: number, tokens: number): void
  /** Ends its work, or pauses it. */
  stop(): void
  resume(nowMs: number): void
  /** The token at `nextMs` has come. */
  advance(): void
}

/** Prefill at k·l, then a token after each step; paused, the step that was begun is made again. */
export function simulatedDevice(profile: DeviceProfile): SimulatedSide {
  return new PacedSide((tokens) => ({ ttftMs: deviceTtftMs(profile, tokens), tokenMs: 1_000 / profile.decodeTokensPerS }))
}

/** A server whose first request has the first latency, and each later one the second. */
export function simulatedServer({ server, serverAgain }: Pick<ReplayRequest, 'server' | 'serverAgain'>): SimulatedSide {
  let isFirst = true
  return new PacedSide(() => {
    const latency = isFirst ? server : serverAgain
    isFirst = false
    return latency
  })
}

class PacedSide implements SimulatedSide {
  readonly #latencyOf: (tokens: number) => Latency
  #tokenMs = 0
  nextMs = Number.POSITIVE_INFINITY

  constructor(latencyOf: (tokens: number) => Latency) {
    this.#latencyOf = latencyOf
  }

  start(nowMs: number, tokens: number): void {
    const { ttftMs, tokenMs } = this.#latencyOf(tokens)
    this.#tokenMs = tokenMs
    this.nextMs = nowMs + ttftMs
  }

  stop(): void {
    this.nextMs = Number.POSITIVE_INFINITY
  }

  resume(nowMs: number): void {
    this.nextMs = nowMs + this.#tokenMs
  }

  advance(): void {
    this.nextMs += this.#tokenMs
  }
}
