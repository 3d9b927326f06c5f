import type { EndedStep } from './step-loop.ts'

/** One step as `/v1/steps` tells it. */
export interface LoggedStep {
  /** Steps before it since the start: whoever asks often enough misses none and counts none twice. */
  readonly index: number
  /** Since the bridge's start. */
  readonly startMs: number
  readonly items: number
  readonly tokens: number
  readonly computeMs: number
  /** g of a step of so many tokens, before this one was known; null for the first. */
  readonly predictedMs: number | null
}

/** The last steps, as many as fit. */
export class StepLog {
  readonly #most: number
  readonly #steps: LoggedStep[] = []
  #count = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @param sinceMs the start, by the clock of the steps; @param predictedS g */
  record({ startedMs, ...step }: EndedStep, sinceMs: number, predictedS: number | undefined): void {
    const predictedMs = predictedS === undefined ? null : predictedS * 1_000
    this.#steps[this.#count % this.#most] = { index: this.#count, startMs: startedMs - sinceMs, ...step, predictedMs }
    this.#count += 1
  }

  /** Oldest first. */
  list(): LoggedStep[] {
    const next = this.#count % this.#most
    return this.#count <= this.#most ? [...this.#steps] : [...this.#steps.slice(next), ...this.#steps.slice(0, next)]
  }
}
