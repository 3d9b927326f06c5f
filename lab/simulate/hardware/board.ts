import type { PowerModel } from '../world/energy-meter.ts'
import type { Hardware } from './roofline.ts'

/** A device: what computes, what it spends, and what slows it. */
export interface Board {
  readonly name: string
  readonly hardware: Hardware
  readonly power: PowerModel
  readonly powerModes: readonly PowerMode[]
  readonly throttling: Throttling
  /** Rates that were measured with certain models, by the model's name; they count before the roofline. */
  readonly measured: Readonly<Record<string, MeasuredRates>>
  readonly source: string
}

/** A setting of clocks and cores. */
export interface PowerMode {
  readonly name: string
  /** Of full speed. */
  readonly speed: number
}

/** What long work does to a board's speed. */
export interface Throttling {
  /** Of full speed, once it is hot; 1: its cooling suffices. */
  readonly sustained: number
  /** Seconds of work after which it has lost 63 % of what it loses; of rest, after which it has regained as much. */
  readonly timeConstantS: number
}

/** Tokens per second of one answer on a device. */
export interface MeasuredRates {
  readonly prefillTokensPerS: number
  readonly decodeTokensPerS: number
}
