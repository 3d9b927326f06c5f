import type { AnswerDelta, Endpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import { AnswerMeter } from '../../core/policy/pice/answer-meter.ts'
import type { CloudSpeed } from '../../core/policy/pice/state.ts'

/** Measures how fast an endpoint answers: f(l) of PICE. */
export class CloudMeter {
  readonly #clock: Clock
  readonly #meter = new AnswerMeter()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** For an answer that is asked for now; undefined before the first answer of two tokens. */
  get speed(): CloudSpeed | undefined {
    return this.#meter.speed
  }

  /** The same endpoint, whose answers are measured. */
  measured<Kind extends Endpoint>(endpoint: Kind): Kind {
    return { ...endpoint, answer: (...args: Parameters<Endpoint['answer']>) => this.#measure(endpoint, ...args) }
  }

  async *#measure(endpoint: Endpoint, ...args: Parameters<Endpoint['answer']>): AsyncGenerator<AnswerDelta, void> {
    const answer = this.#meter.begin(this.#nowS())
    try {
      for await (const delta of endpoint.answer(...args)) {
        answer.tokens('text' in delta ? delta.tokenCount : delta.tokens.length, this.#nowS())
        yield delta
        answer.asked(this.#nowS())
      }
    } finally {
      answer.ended()
    }
  }

  #nowS(): number {
    return this.#clock.nowMs() / 1_000
  }
}
