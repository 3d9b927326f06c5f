import type { ExpansionTime } from '../../../../core/policy/pice/expansion-deadline.ts'
import type { Answer } from '../../world/answer.ts'

/** A sketch, and what it will be expanded to. */
export interface WrittenSketch {
  readonly promptTokens: number
  readonly sketchTokens: number
  /** l, as foreseen. */
  readonly expectedTokens: number
  /** Words of each line. */
  readonly words: readonly number[]
  /** Tokens that each line's expansion really has. */
  readonly tokens: readonly number[]
}

export interface ExpansionRequest extends ExpansionTime {
  readonly answer: Answer
  readonly sketch: WrittenSketch
  /** Expansions of each line. */
  readonly candidates: number
  /** All candidates of a line have arrived. */
  sentence(at: number): void
  /** All have arrived, or no more will. */
  ended(): void
}

/** One answer's sketch on the fleet: which candidates of which sentences are missing. Mutable. */
export class PendingExpansion {
  readonly request: ExpansionRequest
  readonly sinceMs: number
  readonly #missing: Map<number, number>
  #hasFailed = false

  constructor(request: ExpansionRequest, nowMs: number) {
    this.request = request
    this.sinceMs = nowMs
    this.#missing = new Map(request.sketch.words.map((_, at) => [at, request.candidates]))
  }

  /** Too late: no more is wanted. */
  get hasFailed(): boolean {
    return this.#hasFailed
  }

  /** Indices of the lines that are missing. */
  get missing(): readonly number[] {
    return [...this.#missing.keys()]
  }

  /** Predicted length of what is missing. */
  get expectedTokens(): number {
    const { expectedTokens, words } = this.request.sketch
    return Math.max(1, Math.round((expectedTokens * this.#missing.size) / words.length))
  }

  /** A candidate has arrived; none does twice. */
  take(sentence: number): void {
    if (this.#hasFailed) return
    const left = this.#missing.get(sentence)! - 1
    if (left > 0) return void this.#missing.set(sentence, left)
    this.#missing.delete(sentence)
    this.request.sentence(sentence)
    if (this.#missing.size === 0) this.request.ended()
  }

  /** What has arrived stays valid. */
  fail(): void {
    if (this.#hasFailed || this.#missing.size === 0) return
    this.#hasFailed = true
    this.request.ended()
  }
}
