import type { PowerModel } from '../hardware/board.ts'

/** What a device spends beside its idle power, in joules. Mutable. */
export class EnergyMeter {
  readonly #power: PowerModel
  joules = 0

  constructor(power: PowerModel) {
    this.#power = power
  }

  /** @param seconds at full speed: a slower board takes longer with less power @returns joules of so many seconds of computing */
  compute(seconds: number): number {
    return this.#add(seconds * this.#power.computeW)
  }

  /** @returns joules of so many seconds of sending or receiving */
  radio(seconds: number): number {
    return this.#add(seconds * this.#power.radioW)
  }

  #add(joules: number): number {
    this.joules += joules
    return joules
  }
}
