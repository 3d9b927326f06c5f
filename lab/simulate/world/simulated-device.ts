import type { Hardware } from '../hardware/roofline.ts'
import type { EnergyMeter } from './energy-meter.ts'
import type { Processor } from './processor.ts'
import type { SimulatedLink } from './simulated-link.ts'

/** A device of the fleet. */
export interface SimulatedDevice {
  readonly index: number
  /** Name of its group in the scenario. */
  readonly group: string
  /** At its present power mode. */
  readonly hardware: Hardware
  /** Computes one thing at a time. */
  readonly processor: Processor
  readonly link: SimulatedLink
  readonly energy: EnergyMeter
}
