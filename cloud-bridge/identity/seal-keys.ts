import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../core/kit/base/clock.ts'

/** Far longer than what is sealed stays valid. */
const replaceEveryMs = 24 * 3_600_000

/**
 * Seals with random keys of this process, which never leave it. The key is replaced every day; what the one before has sealed
 * stays good until the next replacement.
 */
export class SealKeys {
  readonly #clock: Clock
  #current = randomBytes(32)
  #former: Buffer | undefined
  #sinceMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = clock.nowMs()
  }

  /** HMAC-SHA-256. */
  seal(body: string | Buffer): Buffer {
    const nowMs = this.#clock.nowMs()
    if (nowMs - this.#sinceMs >= replaceEveryMs) {
      this.#former = this.#current
      this.#current = randomBytes(32)
      this.#sinceMs = nowMs
    }
    return sealWith(this.#current, body)
  }

  /** @param seal the first bytes of it, at least 16 */
  isGood(body: string | Buffer, seal: Buffer): boolean {
    const keys = this.#former ? [this.#current, this.#former] : [this.#current]
    return keys.some((key) => timingSafeEqual(seal, sealWith(key, body).subarray(0, seal.length)))
  }
}

const sealWith = (key: Buffer, body: string | Buffer) => createHmac('sha256', key).update(body).digest()
