import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'

export const nonceLifetimeMs = 60_000
const timeBytes = 6
const bodyBytes = 16

/**
 * Random, each good for one signature within a minute. A nonce tells itself, under a key of this process, when it was issued:
 * only those that were signed are remembered, so that whoever asks for very many makes nobody else's void.
 */
export class Nonces {
  readonly #clock: Clock
  readonly #key = randomBytes(32)
  /** → when; in order. */
  readonly #spent = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  issue(): string {
    const body = randomBytes(bodyBytes)
    body.writeUIntBE(Math.floor(this.#clock.nowMs()), 0, timeBytes)
    return Buffer.concat([body, this.#seal(body)]).toString('base64url')
  }

  /** Whether it was issued lately, and not spent. */
  isGood(nonce: string): boolean {
    const bytes = Buffer.from(nonce, 'base64url')
    const [body, seal] = [bytes.subarray(0, bodyBytes), bytes.subarray(bodyBytes)]
    if (seal.length !== bodyBytes || !timingSafeEqual(seal, this.#seal(body))) return false
    return this.#clock.nowMs() - body.readUIntBE(0, timeBytes) < nonceLifetimeMs && !this.#spent.has(nonce)
  }

  /** It was signed. */
  spend(nonce: string): void {
    const nowMs = this.#clock.nowMs()
    for (const [before, atMs] of this.#spent) {
      if (nowMs - atMs < nonceLifetimeMs) break
      this.#spent.delete(before)
    }
    this.#spent.set(nonce, nowMs)
  }

  #seal(body: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(body).digest().subarray(0, bodyBytes)
  }
}
