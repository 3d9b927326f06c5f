import type { AnswerSize } from '../../core/answer/metrics/answer-metrics.ts'

/** Enough for a busy hour, in some 100 KB. */
const capacity = 2_000

/** When the last answers were asked for and how long they were, oldest first; of answers and prompts it holds nothing else. */
export class AnswerSizes {
  readonly #sizes: AnswerSize[] = []

  readonly add = (size: AnswerSize): void => {
    this.#sizes.push(size)
    if (this.#sizes.length > capacity) this.#sizes.shift()
  }

  /** In the order in which they were asked for. */
  list(): AnswerSize[] {
    return [...this.#sizes].sort((a, b) => a.atMs - b.atMs)
  }
}
