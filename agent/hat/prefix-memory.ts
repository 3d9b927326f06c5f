import type { Clock } from '../../core/base/clock.ts'
import type { Resume } from '../link/link-session.ts'

/** Shorter beginnings cost less to send again than to look after. */
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
 * What a bridge still holds of earlier answers, by their tokens. Only here can a prompt be recognised: the bridge has
 * random handles and no tokens. One client of this device never begins with what another one asked.
 */
export class PrefixMemory {
  readonly #clock: Clock
  readonly #keepMs: number
  #kept: CachedPrefix[] = []

  /** @param keepMs after so long nothing is looked for any more */
  constructor(clock: Clock, keepMs = 600_000) {
    this.#clock = clock
    this.#keepMs = keepMs
  }

  /** The longest beginning of a prompt that a bridge may hold. At least one position is left to compute. */
  find(client: string, prompt: readonly number[]): Resume | undefined {
    const afterMs = this.#clock.nowMs() - this.#keepMs
    this.#kept = this.#kept.filter(({ sinceMs }) => sinceMs > afterMs)
    const own = this.#kept.filter((kept) => kept.client === client)
    const found = own.map(({ handle, bridge, ids }) => ({
      handle,
      bridge,
      length: Math.min(commonLength(ids, prompt), prompt.length - 1),
    }))
    const [best] = found.sort((a, b) => b.length - a.length)
    return best && best.length >= minPrefixTokens ? best : undefined
  }

  /** @param ids of every position that stands ready under the handle */
  remember(client: string, ids: readonly number[], { handle, bridge }: Omit<Resume, 'length'>): void {
    this.#kept.unshift({ client, ids: [...ids], handle, bridge, sinceMs: this.#clock.nowMs() })
    this.#kept.length = Math.min(this.#kept.length, maxPrefixes)
  }

  /** It leads nowhere any more. */
  forget(handle: string): void {
    this.#kept = this.#kept.filter((kept) => kept.handle !== handle)
  }
}

function commonLength(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length)
  for (let at = 0; at < end; at++) if (a[at] !== b[at]) return at
  return end
}
