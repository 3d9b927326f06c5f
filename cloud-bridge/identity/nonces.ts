import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'

export const nonceLifetimeMs = 60_000
/** Whoever asks for more than this bridge can remember makes the oldest void; nobody else pays. */
const mostNonces = 10_000

/** Random, each good for one signature within a minute. */
export class Nonces {
  readonly #clock: Clock
  /** → issued at; in order. */
  readonly #issued = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  issue(): string {
    const nonce = randomBytes(32).toString('base64url')
    this.#issued.set(nonce, this.#clock.nowMs())
    const [oldest] = this.#issued.keys()
    if (this.#issued.size > mostNonces && oldest !== undefined) this.#issued.delete(oldest)
    return nonce
  }

  /** @returns whether it was issued lately, and not taken before */
  take(nonce: string): boolean {
    const issuedMs = this.#issued.get(nonce)
    this.#issued.delete(nonce)
    return issuedMs !== undefined && this.#clock.nowMs() - issuedMs < nonceLifetimeMs
  }
}
