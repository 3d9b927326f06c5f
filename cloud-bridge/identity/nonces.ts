import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/kit/base/clock.ts'
import { SealKeys } from './seal-keys.ts'

export const nonceLifetimeMs = 60_000
const timeBytes = 6
const bodyBytes = 16

/**
 * Random nonces, each good for one signature within a minute. A nonce carries its time of issue, sealed with keys of this
 * process. Only spent nonces are stored, so a flood of requests cannot evict another device's nonce.
 */
export class Nonces {
  readonly #clock: Clock
  readonly #keys: SealKeys
  /** Nonce → when it was spent, in order. */
  readonly #spentMs = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#keys = new SealKeys(clock)
  }

  /** @returns base64url of 16 bytes (time of issue, random) and their 16-byte seal */
  issue(): string {
    const body = randomBytes(bodyBytes)
    body.writeUIntBE(Math.floor(this.#clock.nowMs()), 0, timeBytes)
    return Buffer.concat([body, this.#keys.seal(body).subarray(0, bodyBytes)]).toString('base64url')
  }

  /** Whether this process issued it within the last minute, and it is not spent. */
  isGood(nonce: string): boolean {
    const bytes = Buffer.from(nonce, 'base64url')
    const [body, seal] = [bytes.subarray(0, bodyBytes), bytes.subarray(bodyBytes)]
    if (seal.length !== bodyBytes || !this.#keys.isGood(body, seal)) return false
    return this.#clock.nowMs() - body.readUIntBE(0, timeBytes) < nonceLifetimeMs && !this.#spentMs.has(nonce)
  }

  spend(nonce: string): void {
    const nowMs = this.#clock.nowMs()
    for (const [spent, atMs] of this.#spentMs) {
      if (nowMs - atMs < nonceLifetimeMs) break
      this.#spentMs.delete(spent)
    }
    this.#spentMs.set(nonce, nowMs)
  }
}
