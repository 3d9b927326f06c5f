import type { Clock } from '../../kit/base/clock.ts'
import { repeatEvery } from '../../kit/base/repeat.ts'
import type { ChatMessage } from '../../model/text/chat-message.ts'
import type { OutputItem, ResponseObject } from '../../wire/openai/responses-api/response.ts'

/** A response, and the conversation that ends with it, without instructions. */
export interface KeptResponse {
  readonly response: ResponseObject
  readonly conversation: readonly ChatMessage[]
}

interface Entry extends KeptResponse {
  /** As JSON, of response and conversation together. */
  readonly bytes: number
  readonly expiresMs: number
}

const keptMs = 3_600_000
const expireEveryMs = 60_000
const limits = { responses: 1_024, bytes: 32 * 2 ** 20 }

/**
 * Responses that later requests of the same client may refer to, in memory only: for an hour, and within limits of all clients
 * together. Beyond them the client that holds the largest share loses its oldest.
 */
export class KeptResponses {
  readonly #clock: Clock
  /** Client → id → entry, the oldest first. */
  readonly #entries = new Map<string, Map<string, Entry>>()
  readonly #stopExpiry: () => Promise<void>
  #count = 0
  #bytes = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#stopExpiry = repeatEvery(clock, expireEveryMs, () => this.#expire())
  }

  keep(client: string, kept: KeptResponse): void {
    const bytes = Buffer.byteLength(JSON.stringify(kept))
    const own = this.#entries.get(client) ?? new Map<string, Entry>()
    this.#entries.set(client, own)
    own.set(kept.response.id, { ...kept, bytes, expiresMs: this.#clock.nowMs() + keptMs })
    this.#count += 1
    this.#bytes += bytes
    while (this.#count > limits.responses || this.#bytes > limits.bytes) this.#dropOldest()
  }

  find(client: string, id: string): KeptResponse | undefined {
    const entry = this.#entries.get(client)?.get(id)
    return entry && entry.expiresMs > this.#clock.nowMs() ? entry : undefined
  }

  /** A part of a kept response. */
  findItem(client: string, id: string): OutputItem | undefined {
    const now = this.#clock.nowMs()
    for (const { response, expiresMs } of this.#entries.get(client)?.values() ?? []) {
      const item = expiresMs > now && response.output.find((each) => each.id === id)
      if (item) return item
    }
    return undefined
  }

  /** @returns whether it was kept */
  delete(client: string, id: string): boolean {
    const own = this.#entries.get(client)
    const entry = own?.get(id)
    if (!own || !entry) return false
    own.delete(id)
    this.#count -= 1
    this.#bytes -= entry.bytes
    if (own.size === 0) this.#entries.delete(client)
    return true
  }

  close(): Promise<void> {
    return this.#stopExpiry()
  }

  #dropOldest(): void {
    let most: { client: string; share: number; oldest: string } | undefined
    for (const [client, own] of this.#entries) {
      const bytes = [...own.values()].reduce((sum, entry) => sum + entry.bytes, 0)
      const share = bytes / limits.bytes + own.size / limits.responses
      if (!most || share > most.share) most = { client, share, oldest: own.keys().next().value! }
    }
    if (most) this.delete(most.client, most.oldest)
  }

  #expire(): void {
    const now = this.#clock.nowMs()
    for (const [client, own] of this.#entries)
      for (const [id, { expiresMs }] of own) if (expiresMs <= now) this.delete(client, id)
  }
}
