import { Ewma } from '../../core/policy/estimate/ewma.ts'

export interface EndedStep {
  /** By the clock of the step loop. */
  readonly startedMs: number
  /** Streams that it served. */
  readonly items: number
  readonly tokens: number
  /** From its beginning to its end, through all stages. */
  readonly computeMs: number
  /** g of HAT Eq. 2, as it was before this step; undefined for the first step. */
  readonly predictedS: number | undefined
}

/** Counters since the start. The averages are exponential, in ms. */
export class ServingMetrics {
  steps = 0
  items = 0
  tokens = 0
  /** Steps by how many streams they served: batches[1] counts those that served one. */
  readonly batches: number[]
  /** Packed steps that failed and were repeated stream by stream. */
  splits = 0
  failedItems = 0
  queueMs = 0
  computeMs = 0
  readonly #queueMs = new Ewma()
  readonly #computeMs = new Ewma()

  constructor(maxStreams: number) {
    this.batches = Array.from({ length: maxStreams + 1 }, () => 0)
  }

  /** @param arrivedMs when the rows of each of its streams arrived */
  record({ startedMs, items, tokens, computeMs }: Omit<EndedStep, 'predictedS'>, arrivedMs: readonly number[]): void {
    this.#queueMs.record(arrivedMs.reduce((sum, atMs) => sum + startedMs - atMs, 0) / items)
    this.#computeMs.record(computeMs)
    this.queueMs = this.#queueMs.value ?? 0
    this.computeMs = this.#computeMs.value ?? 0
    this.steps += 1
    this.items += items
    this.tokens += tokens
    this.batches[items] = (this.batches[items] ?? 0) + 1
  }
}
