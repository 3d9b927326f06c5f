import type { EngineAnswer } from './engine.ts'
import type { OwnerHost, StreamOwner } from './stream-owner.ts'

/** An answer of the whole model: its prompt waits first, then each token for the next one. Mutable. */
export class AnswerRun implements StreamOwner {
  readonly #id: number
  readonly #answer: EngineAnswer
  readonly #host: OwnerHost
  #answered = 0

  constructor(id: number, answer: EngineAnswer, host: OwnerHost) {
    this.#id = id
    this.#answer = answer
    this.#host = host
  }

  get cachedRows(): number {
    return this.#answer.cachedTokens
  }

  open(): void {
    const { promptTokens: rows, outputTokens, tokensPerS, client = '' } = this.#answer
    const following = outputTokens - 1
    this.#host.feed({ kind: 'answer opened', stream: this.#id, owner: client, client, tokensPerS, rows, following })
  }

  computed(): void {
    const { waitingRows, isInStep } = this.#host.stream(this.#id)
    if (waitingRows > 0 || isInStep) return
    this.#answered += 1
    const left = this.#answer.outputTokens - this.#answered
    // The memory is free before the reader gets the last token.
    if (left === 0) this.#host.close(this.#id)
    // The last token of an answer becomes no row.
    else this.#host.feed({ kind: 'rows', stream: this.#id, rows: 1, phase: 'decode', following: left - 1 })
    this.#answer.token()
  }

  entered(): void {}

  admitted(): void {}

  failed(): void {
    this.#answer.refused()
  }
}
