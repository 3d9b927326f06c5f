import { BrimError } from '../../core/base/errors.ts'
import type { Expanded } from './expander.ts'

/** Candidates that wait for their answer to take them. */
export class Arrivals {
  readonly #arrived: Expanded[] = []
  #failure: BrimError | undefined
  #isDone = false
  #wake = () => {}

  push(expanded: Expanded): void {
    this.#arrived.push(expanded)
    this.#wake()
  }

  /** No more will come. */
  done(): void {
    this.#isDone = true
    this.#wake()
  }

  /** What has arrived stays valid. */
  fail(failure: BrimError): void {
    this.#failure ??= failure
    this.#wake()
  }

  /** Every candidate as it arrives. @throws BrimError of `fail`; CANCELED */
  async *read(signal: AbortSignal): AsyncGenerator<Expanded, void> {
    const onAbort = () => this.fail(new BrimError('CANCELED', 'the answer was canceled'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for (;;) {
        const next = this.#arrived.shift()
        if (next) yield next
        else if (this.#isDone) return
        else if (this.#failure) throw this.#failure
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}
