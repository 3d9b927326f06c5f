import { BrimError } from '../../kit/base/errors.ts'

/** When a client may ask again: the process has been replaced by then, or another one answers. */
const retryAfterMs = 5_000

/** Requests that a server is answering. Before it stops it lets them end, and refuses new ones. */
export class AnswersInProgress {
  readonly #name: string
  #count = 0
  #isDraining = false
  #onIdle = () => {}

  /** @param name of the server, for the error: `this agent` */
  constructor(name: string) {
    this.#name = name
  }

  get count(): number {
    return this.#count
  }

  /** Why a new request would be refused; undefined: it would not. */
  get problem(): BrimError | undefined {
    if (!this.#isDraining) return undefined
    const hint = 'ask again in a few seconds, or ask another one'
    return new BrimError('SESSION_REFUSED', `${this.#name} is shutting down and begins no new answers`, { hint, retryAfterMs })
  }

  /** @throws BrimError SESSION_REFUSED once the server drains; what `answer` throws */
  async run<T>(answer: () => Promise<T>): Promise<T> {
    if (this.problem) throw this.problem
    this.#count += 1
    try {
      return await answer()
    } finally {
      this.#count -= 1
      if (this.#count === 0) this.#onIdle()
    }
  }

  /** Refuses new requests. @returns resolves when none is in progress */
  drain(): Promise<void> {
    this.#isDraining = true
    return new Promise((resolve) => {
      const before = this.#onIdle
      this.#onIdle = () => {
        before()
        resolve()
      }
      if (this.#count === 0) resolve()
    })
  }
}
