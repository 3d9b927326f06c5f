/** When the stages of a pipeline are free, and how long they computed. Mutable. */
export class StageClock {
  readonly #freeMs: Float64Array
  #steps = 0
  #busyS = 0
  /** Sum of the squares of the stages' seconds. */
  #squaredS2 = 0

  /** @param stages P */
  constructor(stages: number) {
    this.#freeMs = new Float64Array(stages)
  }

  /** When the first stage takes another step. */
  get freeMs(): number {
    return this.#freeMs[0]!
  }

  get figures(): { readonly busyS: number; readonly stageMs: number; readonly stageDeviationMs: number } {
    const meanS = this.#busyS / this.#steps
    const variance = Math.max(0, this.#squaredS2 / this.#steps - meanS ** 2)
    return { busyS: this.#busyS, stageMs: 1_000 * meanS, stageDeviationMs: 1_000 * Math.sqrt(variance) }
  }

  /**
   * A step begins at the first stage, which is free.
   * @param seconds through all stages
   * @returns when it leaves the last one
   */
  begin(seconds: number, nowMs: number): number {
    const stageS = seconds / this.#freeMs.length
    let endsMs = nowMs
    for (let stage = 0; stage < this.#freeMs.length; stage += 1) {
      endsMs = Math.max(endsMs, this.#freeMs[stage]!) + 1_000 * stageS
      this.#freeMs[stage] = endsMs
    }
    this.#steps += 1
    this.#busyS += stageS
    this.#squaredS2 += stageS ** 2
    return endsMs
  }
}
