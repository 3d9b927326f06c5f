import type { Clock } from '../../core/kit/base/clock.ts'
import { bytesOf } from './base64url.ts'
import { SealKeys } from './seal-keys.ts'

const sealBytes = 32

/**
 * Bearer tokens of this process: subject, grant and expiry by its own monotonic clock, sealed with keys that never
 * leave the process. Opaque to their bearers.
 */
export class AccessTokens {
  readonly #clock: Clock
  readonly #keys: SealKeys

  constructor(clock: Clock) {
    this.#clock = clock
    this.#keys = new SealKeys(clock)
  }

  /** @param grant that the token belongs to and ends with; '': none */
  mint(subject: string, grant: string, lifetimeMs: number): string {
    const body = Buffer.from(JSON.stringify([subject, grant, this.#clock.nowMs() + lifetimeMs])).toString('base64url')
    return `${body}.${this.#keys.seal(body).toString('base64url')}`
  }

  /** @returns undefined where this process did not mint the token, or it has expired */
  read(token: string): { readonly subject: string; readonly grant: string } | undefined {
    const [body, seal, ...rest] = token.split('.')
    if (body === undefined || seal === undefined || rest.length > 0) return undefined
    const given = bytesOf(seal)
    if (given?.length !== sealBytes || !this.#keys.isGood(body, given)) return undefined
    const [subject, grant, untilMs] = JSON.parse(Buffer.from(body, 'base64url').toString()) as [string, string, number]
    return this.#clock.nowMs() < untilMs ? { subject, grant } : undefined
  }
}
