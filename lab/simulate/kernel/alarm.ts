import type { Simulation } from './simulation.ts'

/** When a machine wants to know that nothing else has happened. Mutable. */
export class Alarm {
  readonly #simulation: Simulation
  readonly #ring: () => void
  #atMs: number | undefined
  #handle = 0

  constructor(simulation: Simulation, ring: () => void) {
    this.#simulation = simulation
    this.#ring = ring
  }

  /** @param atMs in place of the time before; undefined: never */
  set(atMs: number | undefined): void {
    if (atMs === this.#atMs) return
    this.#simulation.cancel(this.#handle)
    this.#atMs = atMs
    if (atMs === undefined) return
    this.#handle = this.#simulation.at(atMs, () => {
      this.#atMs = undefined
      this.#ring()
    })
  }
}
