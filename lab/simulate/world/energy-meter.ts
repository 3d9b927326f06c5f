/** Watts of a board or phone. */
export interface PowerModel {
  readonly idleW: number
  /** In addition, while it computes. */
  readonly computeW: number
  /** In addition, per byte per second of its radio. */
  readonly radioJPerByte: number
}

/** What a device spends beside its idle power, in joules. Mutable. */
export class EnergyMeter {
  readonly #power: PowerModel
  joules = 0

  constructor(power: PowerModel) {
    this.#power = power
  }

  /** @returns joules of so many seconds of computing */
  compute(seconds: number): number {
    return this.#add(seconds * this.#power.computeW)
  }

  /** @returns joules of so many bytes, sent or received */
  radio(bytes: number): number {
    return this.#add(bytes * this.#power.radioJPerByte)
  }

  #add(joules: number): number {
    this.joules += joules
    return joules
  }
}
