import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'

/**
 * Bearer tokens of this process: who, and until when by its own monotonic clock, under a key that nobody else has and that
 * ends with it. Opaque to whoever carries one.
 */
export class SessionTokens {
  readonly #clock: Clock
  readonly #key: Buffer

  constructor(clock: Clock, key: Buffer = randomBytes(32)) {
    this.#clock = clock
    this.#key = key
  }

  mint(subject: string, lifetimeMs: number): string {
    const body = Buffer.from(JSON.stringify([subject, this.#clock.nowMs() + lifetimeMs])).toString('base64url')
    return `${body}.${this.#seal(body).toString('base64url')}`
  }

  /** @returns the subject, or undefined where the token is not ours or is over */
  read(token: string): string | undefined {
    const [body, seal, ...rest] = token.split('.')
    if (body === undefined || seal === undefined || rest.length > 0) return undefined
    const [given, own] = [Buffer.from(seal, 'base64url'), this.#seal(body)]
    if (given.length !== own.length || !timingSafeEqual(given, own)) return undefined
    const [subject, untilMs] = JSON.parse(Buffer.from(body, 'base64url').toString()) as [string, number]
    return this.#clock.nowMs() < untilMs ? subject : undefined
  }

  #seal(body: string): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}
