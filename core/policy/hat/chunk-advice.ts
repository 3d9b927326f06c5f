import { type ChunkLimits, chunkSize, hasMoved, tokenSeconds } from './chunk-size.ts'
import type { StateMonitor } from './state-monitor.ts'

/** Rates that a device reports. */
export interface DeviceRates {
  /** β_up. */
  readonly upBytesPerS: number
  readonly prefillTokensPerS: number
}

/** Whether a device reports its rates: they are its first ones, or one of them has moved. */
export function areWorthReporting(rates: DeviceRates, reported: DeviceRates | undefined): boolean {
  if (!reported) return true
  return hasMoved(reported.upBytesPerS, rates.upBytesPerS) || hasMoved(reported.prefillTokensPerS, rates.prefillTokensPerS)
}

export interface ChunkAdviceOptions {
  readonly monitor: StateMonitor
  readonly bytesPerToken: number
  readonly limits: ChunkLimits
  /** P, where the pieces of one prompt follow one another through the stages; else 1. */
  readonly pipeline: number
  /** Chunk size before the device's rates and the cloud's g are known. */
  readonly initialTokens: number
}

/** The chunk size of one session (HAT Eq. 3), revised when its inputs have moved. Mutable. */
export class ChunkAdvice {
  readonly #options: ChunkAdviceOptions
  #inputs: { batchTokens: number; tokenS: number } | undefined
  #tokens: number

  constructor(options: ChunkAdviceOptions) {
    this.#options = options
    this.#tokens = options.initialTokens
  }

  /** X. */
  get tokens(): number {
    return this.#tokens
  }

  /** @returns whether X has changed */
  revise(rates: DeviceRates | undefined): boolean {
    const { monitor, bytesPerToken, limits, pipeline } = this.#options
    const g = monitor.g.knots()
    if (!rates || g.length === 0) return false
    const { batchTokens } = monitor
    const tokenS = tokenSeconds(bytesPerToken, rates.upBytesPerS, rates.prefillTokensPerS)
    const last = this.#inputs
    if (last && !hasMoved(last.batchTokens, batchTokens) && !hasMoved(last.tokenS, tokenS)) return false
    this.#inputs = { batchTokens, tokenS }
    const before = this.#tokens
    this.#tokens = chunkSize({ tokenS, g, batchTokens, pipeline }, limits)
    return this.#tokens !== before
  }
}
