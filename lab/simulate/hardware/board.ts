import { z } from 'zod'
import type { Throttling } from './heat.ts'
import type { Hardware } from './roofline.ts'

const watts = z.number().nonnegative()

/** Watts of a board or phone: at rest, and in addition while it computes at full speed and while its radio sends or receives, at whatever rate. */
export const powerSchema = z.strictObject({ idleW: watts, computeW: watts, radioW: watts })
export type PowerModel = z.output<typeof powerSchema>

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
