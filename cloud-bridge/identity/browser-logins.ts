import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { KeyRecord } from '../../core/wire/protocol/http/admin.ts'
import { AccessTokens } from './access-tokens.ts'
import type { IdentityStore } from './store.ts'

export const codeMs = 60_000
export const loginMs = 12 * 3_600_000

/**
 * Logins of browsers: a command that has a key gets a code for it, which a page exchanges for a token, once. The token has the rights,
 * the quota and the end of its key. A restart of the bridge ends both.
 */
export class BrowserLogins {
  readonly #store: Pick<IdentityStore, 'validKey'>
  readonly #clock: Clock
  readonly #tokens: AccessTokens
  /** Code → when it was exchanged, in order. */
  readonly #usedMs = new Map<string, number>()

  constructor(store: Pick<IdentityStore, 'validKey'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#tokens = new AccessTokens(clock)
  }

  /** @returns a code, good once within `codeMs` */
  issue({ id }: KeyRecord): string {
    return this.#tokens.mint(`code ${randomBytes(16).toString('hex')}`, id, codeMs)
  }

  /** @returns the key of a code; without a token where the code was exchanged before. Undefined: it is no code, or its time is over */
  exchange(code: string): { readonly key: KeyRecord; readonly token?: string } | undefined {
    const key = this.#keyOf(code, 'code ')
    if (!key || this.#usedMs.has(code)) return key && { key }
    const nowMs = this.#clock.nowMs()
    for (const [used, atMs] of this.#usedMs) if (nowMs - atMs > codeMs) this.#usedMs.delete(used)
    this.#usedMs.set(code, nowMs)
    return { key, token: this.#tokens.mint('login', key.id, loginMs) }
  }

  /** @returns undefined where the token is of no login, or its key is revoked or expired */
  keyOf(token: string): KeyRecord | undefined {
    return this.#keyOf(token, 'login')
  }

  #keyOf(token: string, subject: string): KeyRecord | undefined {
    const read = this.#tokens.read(token)
    return read?.subject.startsWith(subject) ? this.#store.validKey(read.grant) : undefined
  }
}
