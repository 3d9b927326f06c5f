import type { PowerModel } from '../world/energy-meter.ts'
import type { Throttling } from './heat.ts'
import { headOf, type ModelShape, wholeModel } from './model-shape.ts'
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

/** The board as a model finds it: where its rates with this model were measured, the roofline that gives just these. */
export function hardwareFor({ hardware, measured }: Board, shape: ModelShape): Hardware {
  const rates = measured[shape.name]
  if (!rates) return hardware
  const whole = wholeModel(shape)
  const head = headOf(shape)
  return {
    ...hardware,
    bytesPerS: rates.decodeTokensPerS * (whole.weightBytes + head.weightBytes),
    flopPerS: rates.prefillTokensPerS * whole.flopPerRow,
    layerS: 0,
  }
}
