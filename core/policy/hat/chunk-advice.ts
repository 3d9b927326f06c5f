import type { StateMonitor } from '../estimate/state-monitor.ts'
import { type ChunkLimits, chunkSize, hasMoved, tokenSeconds } from './chunk-size.ts'

export interface DeviceRates {
  /** β_up. */
  readonly upBytesPerS: number
  readonly prefillTokensPerS: number
}

/** The rates that a device reports to one bridge: its first ones, and again once one of them has moved. Mutable. */
export class RateReports {
  /** Those reported last. */
  reported: DeviceRates | undefined

  /** @returns rates to report before the next frame */
  due(upBytesPerS: number | undefined, prefillTokensPerS: number | undefined): DeviceRates | undefined {
    if (upBytesPerS === undefined || prefillTokensPerS === undefined) return undefined
    const last = this.reported
    if (last && !hasMoved(last.upBytesPerS, upBytesPerS) && !hasMoved(last.prefillTokensPerS, prefillTokensPerS)) return undefined
    this.reported = { upBytesPerS, prefillTokensPerS }
    return this.reported
  }
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

  /** After a frame. @returns whether X has changed, and the device is to know it */
  reviseAfter(frame: { readonly rows: number; readonly returned: number }, rates: DeviceRates | undefined): boolean {
    // A frame that asks for fewer rows than it brings is part of a prompt, and more may follow.
    return frame.rows > frame.returned && this.revise(rates)
  }

  /** @returns whether X has changed */
  revise(rates: DeviceRates | undefined): boolean {
    const { monitor, bytesPerToken, limits, pipeline } = this.#options
    const { line: g } = monitor
    if (!rates || !g) return false
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
