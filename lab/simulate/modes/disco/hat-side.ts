import type { Answer } from '../../world/answer.ts'
import { type AnswerWork, noWork } from '../../world/answer-record.ts'
import type { splitAnswers } from '../hat/modes.ts'
import type { SimulatedRun, SimulatedSide } from './simulated-side.ts'

/** HAT in the place of the server: what it reads does not leave the device. Mutable. */
export class HatSide implements SimulatedSide {
  readonly #begin: ReturnType<typeof splitAnswers>
  readonly #answer: Answer
  #stop = () => {}
  #work: AnswerWork | undefined

  constructor(begin: ReturnType<typeof splitAnswers>, answer: Answer) {
    this.#begin = begin
    this.#answer = answer
  }

  /** What drafts and verifications came to; undefined: it was not asked. */
  get work(): AnswerWork | undefined {
    return this.#work
  }

  start(run: SimulatedRun): void {
    const { request, reader, work: whole } = this.#answer
    // Whose tokens count is the controller's to say; what they cost the device is not.
    const work: AnswerWork = Object.defineProperty(noWork(), 'joules', {
      get: () => whole.joules,
      set(joules: number) {
        whole.joules = joules
      },
    })
    this.#work = work
    let tokens = 0
    let isOver = false
    const part = {
      request: {
        promptTokens: run.contextTokens,
        outputTokens: run.tokens,
        sharedTokens: Math.min(request.sharedTokens, run.contextTokens),
      },
      reader,
      work,
      get tokens() {
        return tokens
      },
      deliver(count: number) {
        tokens += count
        for (let at = 0; at < count && !isOver; at += 1) run.token()
      },
      end(refusal?: string) {
        if (refusal !== undefined && !isOver) run.failed()
      },
    }
    const stop = this.#begin(request.device!, part)
    this.#stop = () => {
      if (isOver) return
      isOver = true
      if (tokens < run.tokens) stop()
    }
  }

  stop(): void {
    this.#stop()
  }
}
