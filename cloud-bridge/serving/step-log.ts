import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { EndedStep } from './serving-metrics.ts'

/** The last `capacity` steps. */
export class StepLog {
  readonly #capacity: number
  readonly #steps: LoggedStep[] = []
  #count = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** @param originMs the bridge's start, by the clock of the steps */
  record({ startedMs, predictedS, ...step }: EndedStep, originMs: number): void {
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
