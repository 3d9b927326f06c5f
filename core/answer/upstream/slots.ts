import { BrimError } from '../../kit/base/errors.ts'

export interface SlotLimits {
  /** Requests that are served at once. */
  readonly requests: number
  /** Further requests that wait, in the order of their arrival. */
  readonly queue: number
}

/** What a client that is refused is asked to wait. */
const retryAfterMs = 1_000

/** Admits a bounded number of requests at once, and a bounded number to a queue. */
export class Slots {
  readonly #limits: SlotLimits
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor(limits: SlotLimits) {
    this.#limits = limits
  }

  /**
   * Waits for a slot. @returns a function that frees it, to be called once
   * @throws BrimError QUEUE_FULL; the signal's reason
   */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { requests, queue } = this.#limits
    if (this.#taken < requests) this.#taken += 1
    else if (this.#waiting.size < queue) await this.#wait(signal)
    else
      throw new BrimError('QUEUE_FULL', `${requests} requests are being answered and ${queue} wait`, {
        hint: 'ask again later',
        retryAfterMs,
      })
    return () => this.#free()
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(enter)
        reject(signal.reason)
      }
      const enter = () => {
        this.#waiting.delete(enter)
        signal.removeEventListener('abort', leave)
        resolve()
      }
      this.#waiting.add(enter)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  /** The slot passes to the request that has waited longest. */
  #free(): void {
    const [next] = this.#waiting
    if (next) next()
    else this.#taken -= 1
  }
}
