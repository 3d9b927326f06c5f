import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'
import { bytesOf } from './base64url.ts'

/**
 * Bearer tokens of this process: subject, grant and expiry by its own monotonic clock, sealed with a key that never leaves
 * the process. Opaque to their bearers.
 */
export class AccessTokens {
  readonly #clock: Clock
  readonly #key = randomBytes(32)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param grant that the token belongs to and ends with; '': none */
  mint(subject: string, grant: string, lifetimeMs: number): string {
    const body = Buffer.from(JSON.stringify([subject, grant, this.#clock.nowMs() + lifetimeMs])).toString('base64url')
    return `${body}.${this.#seal(body).toString('base64url')}`
  }

  /** @returns undefined where this process did not mint the token, or it has expired */
  read(token: string): { readonly subject: string; readonly grant: string } | undefined {
    const [body, seal, ...rest] = token.split('.')
    if (body === undefined || seal === undefined || rest.length > 0) return undefined
    const [given, own] = [bytesOf(seal), this.#seal(body)]
    if (given?.length !== own.length || !timingSafeEqual(given, own)) return undefined
    const [subject, grant, untilMs] = JSON.parse(Buffer.from(body, 'base64url').toString()) as [string, string, number]
    return this.#clock.nowMs() < untilMs ? { subject, grant } : undefined
  }

  #seal(body: string): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}
