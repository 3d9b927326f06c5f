import type { Random } from '../../../core/kit/base/random.ts'
import { type RateTrace, servedMs } from '../../cluster/rate-trace.ts'
import { lossDelayMs, rateUnderLoss } from '../hardware/packet-loss.ts'
import type { Simulation } from '../kernel/simulation.ts'

export interface LinkModel {
  readonly up: RateTrace
  readonly down: RateTrace
  /** Propagation both ways. */
  readonly rttMs: number
  /** Of the traces, when the link begins. */
  readonly fromMs?: number
  /** Of its packets, that are lost and sent again. Default: 0. */
  readonly lossShare?: number
}

type Direction = 'up' | 'down'

/**
 * The link of one device: each direction carries one message after the other at the rate of its trace, less what losses leave
 * of it. Messages arrive in the order in which they were sent. Mutable.
 */
export class SimulatedLink {
  readonly #simulation: Simulation
  readonly #model: LinkModel
  readonly #random: Random
  readonly #freeMs = { up: 0, down: 0 }
  readonly #arrivedMs = { up: 0, down: 0 }
  /** That were sent. */
  readonly bytes = { up: 0, down: 0 }

  /** @param random decides which packets are lost */
  constructor(simulation: Simulation, model: LinkModel, random: Random) {
    this.#simulation = simulation
    this.#model = model
    this.#random = random
  }

  get rttMs(): number {
    return this.#model.rttMs
  }

  /**
   * @param arrived called at the other end, with the message's last byte
   * @returns seconds that the radio needs for it
   */
  send(direction: Direction, bytes: number, arrived: () => void): number {
    const { rttMs, fromMs = 0, lossShare = 0 } = this.#model
    const startMs = Math.max(this.#simulation.nowMs, this.#freeMs[direction])
    const fastestMs = lossShare === 0 ? 0 : (1_000 * bytes) / rateUnderLoss(lossShare, rttMs)
    const freeMs = Math.max(servedMs(this.#model[direction], fromMs + startMs, bytes) - fromMs, startMs + fastestMs)
    const lateMs = lossDelayMs(bytes, freeMs - startMs, rttMs, lossShare, this.#random)
    const arrivedMs = Math.max(this.#arrivedMs[direction], freeMs + rttMs / 2 + lateMs)
    this.#freeMs[direction] = freeMs
    this.#arrivedMs[direction] = arrivedMs
    this.bytes[direction] += bytes
    this.#simulation.at(arrivedMs, arrived)
    return (freeMs - startMs) / 1_000
  }
}
