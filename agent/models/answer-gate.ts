import { BrimError } from '../../core/kit/base/errors.ts'

/** Counts the answers that use a model, so that it can be closed when none does. */
export class AnswerGate {
  #active = 0
  #isClosed = false
  #onIdle = () => {}

  /** An answer begins. @returns to be called at its end. @throws BrimError MODEL_MISSING once the gate is closed */
  begin(): () => void {
    if (this.#isClosed) throw replaced()
    this.#active++
    return () => {
      this.#active--
      if (this.#active === 0) this.#onIdle()
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
