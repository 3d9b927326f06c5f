import type { PowerModel } from '../world/energy-meter.ts'
import type { Throttling } from './heat.ts'
import type { Hardware } from './roofline.ts'

/** A device: what computes, what it spends, and what slows it. */
export interface Board {
  readonly name: string
  readonly hardware: Hardware
  readonly power: PowerModel
  readonly powerModes: readonly PowerMode[]
  readonly throttling: Throttling
  /** Rates that were measured with certain models, by the model's name. */
  readonly measured: Readonly<Record<string, MeasuredRates>>
  readonly source: string
}

/** A setting of clocks and cores. */
export interface PowerMode {
  readonly name: string
  /** Share of full speed. */
  readonly speed: number
}

/** Tokens per second of one answer on a device. */
export interface MeasuredRates {
  readonly prefillTokensPerS: number
  readonly decodeTokensPerS: number
}
