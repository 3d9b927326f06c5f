import type { ApiLatency } from '../../hardware/api-server.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { SimulatedRun, SimulatedSide } from './simulated-side.ts'

/** A side whose starts each have a time to the first token and an even pace after it. Mutable. */
export class PacedSide implements SimulatedSide {
  readonly #simulation: Simulation
  readonly #latencyOf: (contextTokens: number) => ApiLatency
  #run: SimulatedRun | undefined
  #left = 0
  #tokenMs = 0
  #next = 0

  /** @param latencyOf called for each start */
  constructor(simulation: Simulation, latencyOf: (contextTokens: number) => ApiLatency) {
    this.#simulation = simulation
    this.#latencyOf = latencyOf
  }

  start(run: SimulatedRun): void {
    const { ttftMs, tokenMs } = this.#latencyOf(run.contextTokens)
    this.#run = run
    this.#left = run.tokens
    this.#tokenMs = tokenMs
    this.#nextAfter(ttftMs)
  }

  pause(): void {
    this.#simulation.cancel(this.#next)
  }

  resume(): void {
    this.#nextAfter(this.#tokenMs)
  }

  stop(): void {
    this.#run = undefined
    this.#simulation.cancel(this.#next)
  }

  #nextAfter(ms: number): void {
    this.#next = this.#simulation.after(ms, () => {
      this.#left -= 1
      if (this.#left > 0) this.#nextAfter(this.#tokenMs)
      this.#run?.token()
    })
  }
}
