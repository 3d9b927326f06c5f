/** Watts of a board or phone. */
export interface PowerModel {
  readonly idleW: number
  /** In addition, while it computes at full speed. */
  readonly computeW: number
  /** In addition, while its radio sends or receives, at whatever rate. */
  readonly radioW: number
}

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
