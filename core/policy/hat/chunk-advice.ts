import { type ChunkLimits, chunkSize, hasMoved, tokenSeconds } from './chunk-size.ts'
import type { StateMonitor } from './state-monitor.ts'

/** What a device has said of itself. */
export interface DeviceRates {
  /** β_up. */
  readonly upBytesPerS: number
  readonly prefillTokensPerS: number
}

export interface ChunkAdviceOptions {
  readonly monitor: StateMonitor
  readonly bytesPerToken: number
  readonly limits: ChunkLimits
  /** P. */
  readonly pipeline: number
  /** While nothing is known of the device or of the cloud. */
  readonly initialTokens: number
}

/** Chunk sizes of one session: made anew when what they were made on has moved (HAT Eq. 3). */
export class ChunkAdvice {
  readonly #options: ChunkAdviceOptions
  #madeOn: { batchTokens: number; tokenS: number } | undefined
  #tokens: number

  constructor(options: ChunkAdviceOptions) {
    this.#options = options
    this.#tokens = options.initialTokens
  }

  /** X. */
  get tokens(): number {
    return this.#tokens
  }

  /** @returns whether X is another than before */
  revise(rates: DeviceRates | undefined): boolean {
    const { monitor, bytesPerToken, limits, pipeline } = this.#options
    const g = monitor.g.knots()
    if (!rates || g.length === 0) return false
    const { batchTokens } = monitor
    const tokenS = tokenSeconds(bytesPerToken, rates.upBytesPerS, rates.prefillTokensPerS)
    const then = this.#madeOn
    if (then && !hasMoved(then.batchTokens, batchTokens) && !hasMoved(then.tokenS, tokenS)) return false
    this.#madeOn = { batchTokens, tokenS }
    const before = this.#tokens
    this.#tokens = chunkSize({ tokenS, g, batchTokens, pipeline }, limits)
    return this.#tokens !== before
  }
}
