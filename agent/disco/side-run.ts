import type { AnswerText } from '../../core/answer/endpoint/answer-text.ts'
import type { AnswerDelta, AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import { untilAborted } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { Barrier } from './barrier.ts'
import type { BudgetedRun } from './budget.ts'

/** Receives what a side sends, until the side is stopped. */
export interface RunListener {
  onDelta(run: SideRun, delta: AnswerDelta): void
  onFailure(run: SideRun, error: unknown): void
}

export interface SideRunOptions {
  readonly answer: (request: AnswerRequest, signal: AbortSignal) => AsyncGenerator<AnswerDelta, void>
  readonly request: AnswerRequest
  readonly signal: AbortSignal
  /** Open while the reader has taken all that was delivered. */
  readonly taken: Barrier
  /** What it may cost; undefined: it may not start. */
  readonly cost: BudgetedRun | undefined
  /** Finds stop strings in what the run writes. */
  readonly stops: AnswerText | undefined
}

/**
 * One side at work on an answer, from its start to its end, failure or stop. It is not read on before the reader has taken what was
 * delivered: what computes only what is read waits with it.
 */
export class SideRun {
  readonly request: AnswerRequest
  readonly cost: BudgetedRun | undefined
  readonly stops: AnswerText | undefined
  /** Of the answer, from this run. */
  tokens = 0
  /** Resolves when it has freed what it held. */
  readonly closed: Promise<void>
  readonly #stopping = new AbortController()
  readonly #stopped = untilAborted(this.#stopping.signal)
  readonly #going = new Barrier()

  constructor({ answer, request, signal, taken, cost, stops }: SideRunOptions, listener: RunListener) {
    this.request = request
    this.cost = cost
    this.stops = stops
    this.closed = this.#read(answer(request, AbortSignal.any([signal, this.#stopping.signal])), taken, listener)
  }

  pause(): void {
    this.#going.close()
  }

  resume(): void {
    this.#going.open()
  }

  stop(): void {
    this.#stopping.abort(new BrimError('CANCELED', 'the other side writes the answer'))
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted
  }

  async #read(answer: AsyncGenerator<AnswerDelta, void>, taken: Barrier, listener: RunListener): Promise<void> {
    try {
      while (!this.#isStopped) {
        const { value: delta } = await answer.next()
        if (this.#isStopped) return
        if (!delta) throw new Error('the endpoint stopped before the end of its answer')
        listener.onDelta(this, delta)
        if (delta.end) return
        for (let wait = this.#going.passed ?? taken.passed; wait && !this.#isStopped; wait = this.#going.passed ?? taken.passed)
          await Promise.race([wait, this.#stopped])
      }
    } catch (error) {
      if (!this.#isStopped) listener.onFailure(this, error)
    } finally {
      await answer.return().catch(() => {})
    }
  }
}
