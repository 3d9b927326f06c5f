import type { EngineAnswer } from './engine.ts'
import type { SimulatedStream, StreamOwner } from './simulated-stream.ts'
import type { OwnerHost } from './stream-host.ts'

/** An answer of the whole model: its prompt waits first, then each token for the next one. Mutable. */
export class AnswerRun implements StreamOwner {
  readonly #answer: EngineAnswer
  readonly #stream: SimulatedStream
  readonly #host: OwnerHost
  #answered = 0

  constructor(answer: EngineAnswer, stream: SimulatedStream, host: OwnerHost) {
    this.#answer = answer
    this.#stream = stream
    this.#host = host
    stream.followingRows = answer.outputTokens - 1
    this.#wait(answer.promptTokens)
  }

  computed(): void {
    if (this.#stream.waitingRows > 0 || this.#stream.isInStep) return
    this.#answered += 1
    const left = this.#answer.outputTokens - this.#answered
    // The memory is free before the reader gets the last token.
    if (left === 0) this.#host.close(this.#stream)
    else {
      // The last token of an answer becomes no row.
      this.#stream.followingRows = left - 1
      this.#wait(1)
    }
    this.#answer.token()
  }

  entered(): void {}

  #wait(rows: number): void {
    this.#stream.wait(rows, rows === 1 ? 'decode' : 'prefill', this.#host.nowMs)
    this.#host.enqueue(this.#stream)
  }
}
