import type { EndedStep } from './serving-metrics.ts'

/** One step as `/v1/steps` reports it. */
export interface LoggedStep {
  /** Steps before it since the start: a client that asks often enough misses none and counts none twice. */
  readonly index: number
  /** Since the bridge's start. */
  readonly startMs: number
  readonly items: number
  readonly tokens: number
  readonly computeMs: number
  /** g(tokens) of HAT Eq. 2, as it was before this step; null for the first step. */
  readonly predictedMs: number | null
}

/** The last `capacity` steps. */
export class StepLog {
  readonly #capacity: number
  readonly #steps: LoggedStep[] = []
  #count = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** @param originMs the bridge's start, by the clock of the steps */
  record({ startedMs, ...step }: EndedStep, originMs: number, predictedS: number | undefined): void {
    const predictedMs = predictedS === undefined ? null : predictedS * 1_000
    this.#steps[this.#count % this.#capacity] = { index: this.#count, startMs: startedMs - originMs, ...step, predictedMs }
    this.#count += 1
  }

  /** Oldest first. */
  list(): LoggedStep[] {
    const oldest = this.#count % this.#capacity
    return this.#count <= this.#capacity ? [...this.#steps] : [...this.#steps.slice(oldest), ...this.#steps.slice(0, oldest)]
  }
}
