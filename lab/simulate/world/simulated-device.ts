import type { Board } from '../hardware/board.ts'
import type { TransformerShape } from '../hardware/model-shape.ts'
import type { Hardware } from '../hardware/roofline.ts'
import type { Answer } from './answer.ts'
import type { EnergyMeter } from './energy-meter.ts'
import type { Processor } from './processor.ts'
import type { SimulatedLink } from './simulated-link.ts'

export interface SimulatedDevice {
  readonly index: number
  /** Name of its group in the scenario. */
  readonly group: string
  readonly board: Board
  /** Its board's. */
  readonly hardware: Hardware
  /** That it can answer or expand with. */
  readonly smallModels: readonly TransformerShape[]
  /** Computes one thing at a time; slower in a power mode that is below full speed. */
  readonly processor: Processor
  readonly link: SimulatedLink
  readonly energy: EnergyMeter
}

/** Sends a message over the device's link. @param answer for which its radio works @param arrived called at the other end */
export function transfer(
  { energy, link }: Pick<SimulatedDevice, 'energy' | 'link'>,
  { work }: Pick<Answer, 'work'>,
  direction: 'up' | 'down',
  bytes: number,
  arrived: () => void,
): void {
  work.joules += energy.radio(link.send(direction, bytes, arrived))
}
