import type { TokenEndpoint } from '../../core/answer/endpoint.ts'
import { BrimError } from '../../core/base/errors.ts'

/** Counts the answers that use a model, so that it can be closed when none does. */
export class AnswerGate {
  #active = 0
  #isClosed = false
  #onIdle = () => {}

  /** The same endpoint, whose answers are counted. */
  wrap(endpoint: TokenEndpoint): TokenEndpoint {
    const gate = this
    return {
      model: endpoint.model,
      async *answer(request, signal) {
        if (gate.#isClosed) throw replaced()
        gate.#active++
        try {
          yield* endpoint.answer(request, signal)
        } finally {
          gate.#active--
          if (gate.#active === 0) gate.#onIdle()
        }
      },
    }
  }

  /**
   * Waits for a moment without answers. From then on, new ones fail with MODEL_MISSING.
   * @throws the signal's reason when aborted; the gate stays open
   */
  async close(signal: AbortSignal): Promise<void> {
    while (this.#active > 0) {
      signal.throwIfAborted()
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
    signal.throwIfAborted()
    this.#isClosed = true
  }
}

export const replaced = () =>
  new BrimError('MODEL_MISSING', 'the model of this device is being replaced', {
    hint: 'try again in a few seconds',
    retryAfterMs: 2_000,
  })
