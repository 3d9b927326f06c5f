import { type RateTrace, servedMs } from '../../cluster/rate-trace.ts'
import type { Simulation } from '../kernel/simulation.ts'

export interface LinkModel {
  readonly up: RateTrace
  readonly down: RateTrace
  /** Propagation both ways. */
  readonly rttMs: number
  /** Of the traces, when the link begins. */
  readonly fromMs?: number
}

type Direction = 'up' | 'down'

/** The link of one device: each direction carries one message after the other at the rate of its trace. Mutable. */
export class SimulatedLink {
  readonly #simulation: Simulation
  readonly #model: LinkModel
  readonly #freeMs = { up: 0, down: 0 }
  /** That were sent. */
  readonly bytes = { up: 0, down: 0 }

  constructor(simulation: Simulation, model: LinkModel) {
    this.#simulation = simulation
    this.#model = model
  }

  get rttMs(): number {
    return this.#model.rttMs
  }

  /** @param arrived called at the other end, with the message's last byte */
  send(direction: Direction, bytes: number, arrived: () => void): void {
    const { fromMs = 0 } = this.#model
    const startMs = Math.max(this.#simulation.nowMs, this.#freeMs[direction])
    this.#freeMs[direction] = servedMs(this.#model[direction], fromMs + startMs, bytes) - fromMs
    this.bytes[direction] += bytes
    this.#simulation.at(this.#freeMs[direction] + this.#model.rttMs / 2, arrived)
  }
}
