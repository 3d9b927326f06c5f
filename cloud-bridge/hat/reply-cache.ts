/** Replies that a session caches for repeated frames. */
const maxReplies = 8

/** The last replies of a session by the seq of their frames, as many as the KV budget pays for. */
export class ReplyCache {
  readonly #replies = new Map<number, Uint8Array>()
  readonly #charge: (bytes: number) => boolean
  #bytes = 0

  /** @param charge charges the bytes of all cached replies; false: there is no memory for them, the old charge remains */
  constructor(charge: (bytes: number) => boolean) {
    this.#charge = charge
  }

  get(seq: number): Uint8Array | undefined {
    return this.#replies.get(seq)
  }

  /** Replaces the oldest replies; a reply that there is no memory for is not cached. */
  add(seq: number, reply: Uint8Array): void {
    if (this.#replies.size === maxReplies) this.#dropOldest()
    while (!this.#charge(this.#bytes + reply.byteLength)) {
      if (this.#replies.size === 0) return
      this.#dropOldest()
    }
    this.#replies.set(seq, reply)
    this.#bytes += reply.byteLength
  }

  #dropOldest(): void {
    const [oldest] = this.#replies
    if (!oldest) return
    const [seq, reply] = oldest
    this.#replies.delete(seq)
    this.#bytes -= reply.byteLength
    this.#charge(this.#bytes)
  }
}
