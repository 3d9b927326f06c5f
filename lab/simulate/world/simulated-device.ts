import type { Board } from '../hardware/board.ts'
import type { ModelShape } from '../hardware/model-shape.ts'
import type { Hardware } from '../hardware/roofline.ts'
import type { EnergyMeter } from './energy-meter.ts'
import type { Processor } from './processor.ts'
import type { SimulatedLink } from './simulated-link.ts'

/** A device of the fleet. */
export interface SimulatedDevice {
  readonly index: number
  /** Name of its group in the scenario. */
  readonly group: string
  readonly board: Board
  /** Its board's. */
  readonly hardware: Hardware
  /** That it can answer or expand with. */
  readonly smallModels: readonly ModelShape[]
  /** Computes one thing at a time; slower in a power mode that is below full speed. */
  readonly processor: Processor
  readonly link: SimulatedLink
  readonly energy: EnergyMeter
}
