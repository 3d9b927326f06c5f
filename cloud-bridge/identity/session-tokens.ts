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

  /** @param session that it is of: it is worth nothing once that is over; '' for none */
  mint(subject: string, session: string, lifetimeMs: number): string {
    const body = Buffer.from(JSON.stringify([subject, session, this.#clock.nowMs() + lifetimeMs])).toString('base64url')
    return `${body}.${this.#seal(body).toString('base64url')}`
  }

  /** @returns who and which session, or undefined where the token is not ours or is over */
  read(token: string): { readonly subject: string; readonly session: string } | undefined {
    const [body, seal, ...rest] = token.split('.')
    if (body === undefined || seal === undefined || rest.length > 0) return undefined
    const [given, own] = [Buffer.from(seal, 'base64url'), this.#seal(body)]
    if (given.length !== own.length || !timingSafeEqual(given, own)) return undefined
    const [subject, session, untilMs] = JSON.parse(Buffer.from(body, 'base64url').toString()) as [string, string, number]
    return this.#clock.nowMs() < untilMs ? { subject, session } : undefined
  }

  #seal(body: string): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}
