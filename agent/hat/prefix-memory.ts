import type { Clock } from '../../core/kit/base/clock.ts'
import type { PrefixHandle } from '../link/link-session.ts'

/** Sending fewer tokens again costs less than caching them. */
export const minPrefixTokens = 16
/** Of all clients together. */
const maxPrefixes = 32

interface CachedPrefix {
  readonly client: string
  readonly ids: readonly number[]
  readonly handle: string
  readonly bridge: string
  readonly sinceMs: number
}

/**
 * The prefixes that bridges have cached of earlier answers, with their tokens. Only the device can recognise a prompt: the
 * bridge has random handles and no tokens. A client never resumes the prefix of another client.
 */
export class PrefixMemory {
  readonly #clock: Clock
  readonly #expireMs: number
  #prefixes: CachedPrefix[] = []

  /** @param expireMs lifetime of a cached prefix */
  constructor(clock: Clock, expireMs = 600_000) {
    this.#clock = clock
    this.#expireMs = expireMs
  }

  /** The longest cached prefix of a prompt. At least one position is left to compute. */
  find(client: string, prompt: readonly number[]): PrefixHandle | undefined {
    const afterMs = this.#clock.nowMs() - this.#expireMs
    this.#prefixes = this.#prefixes.filter(({ sinceMs }) => sinceMs > afterMs)
    const own = this.#prefixes.filter((prefix) => prefix.client === client)
    const found = own.map(({ handle, bridge, ids }) => ({
      handle,
      bridge,
      length: Math.min(commonLength(ids, prompt), prompt.length - 1),
    }))
    const [best] = found.sort((a, b) => b.length - a.length)
    return best && best.length >= minPrefixTokens ? best : undefined
  }

  /** @param ids of every position that is cached under the handle */
  remember(client: string, ids: readonly number[], { handle, bridge }: Omit<PrefixHandle, 'length'>): void {
    this.#prefixes.unshift({ client, ids: [...ids], handle, bridge, sinceMs: this.#clock.nowMs() })
    this.#prefixes.length = Math.min(this.#prefixes.length, maxPrefixes)
  }

  /** The bridge no longer has the handle. */
  forget(handle: string): void {
    this.#prefixes = this.#prefixes.filter((prefix) => prefix.handle !== handle)
  }
}

function commonLength(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length)
  for (let at = 0; at < end; at++) if (a[at] !== b[at]) return at
  return end
}
