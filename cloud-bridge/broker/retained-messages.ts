/** Memory of a retained message beside its topic and payload, about. */
const overheadBytes = 512

/** Follows which messages the broker retains, so that their memory is bounded and they can be cleared. */
export class RetainedMessages {
  readonly #maxBytes: number
  /** Topic → bytes. */
  readonly #sizes = new Map<string, number>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  topics(): string[] {
    return [...this.#sizes.keys()]
  }

  /** An empty payload deletes the message of the topic. @returns false where there is no memory left for this one */
  put(topic: string, payloadBytes: number): boolean {
    const before = this.#sizes.get(topic) ?? 0
    const now = payloadBytes === 0 ? 0 : topic.length + payloadBytes + overheadBytes
    if (this.#bytes - before + now > this.#maxBytes) return false
    this.#bytes += now - before
    if (now === 0) this.#sizes.delete(topic)
    else this.#sizes.set(topic, now)
    return true
  }
}
