/** A retained message; an empty one clears its topic. */
export interface RetainedMessage {
  readonly topic: string
  readonly payload: string
}

export interface WantedMessage extends RetainedMessage {
  /**
   * Whether the device has what the message is about. Unknown: its figures have not arrived yet. Missing: they have, without this
   * one.
   */
  readonly presence: 'known' | 'unknown' | 'missing'
}

/** A sensor that fails for a moment keeps its entity, with all that its users have set there. */
const clearAfterMs = 10 * 60_000

/** The retained messages about one device: which are sent, and which are cleared. */
export class DeviceTopics {
  /** Payload by topic; empty: not sent on this connection. */
  readonly #sent: Map<string, string>
  readonly #missingSinceMs = new Map<string, number>()

  /** @param known topics that an earlier start has published */
  constructor(known: Iterable<string> = []) {
    this.#sent = new Map([...known].map((topic) => [topic, '']))
  }

  get topics(): string[] {
    return [...this.#sent.keys()]
  }

  /** The broker is another one, or has lost what it retained. */
  onConnect(): void {
    for (const topic of this.#sent.keys()) this.#sent.set(topic, '')
  }

  /** @param wanted empty: the device is gone. @returns what is to be sent now */
  update(wanted: readonly WantedMessage[], nowMs: number): RetainedMessage[] {
    const isWanted = new Set(wanted.filter((message) => this.#isKept(message, nowMs)).map(({ topic }) => topic))
    const cleared = this.topics.filter((topic) => !isWanted.has(topic)).map((topic) => ({ topic, payload: '' }))
    for (const { topic } of cleared) {
      this.#sent.delete(topic)
      this.#missingSinceMs.delete(topic)
    }
    const changed = wanted.filter(({ topic, payload }) => isWanted.has(topic) && this.#sent.get(topic) !== payload)
    for (const { topic, payload } of changed) this.#sent.set(topic, payload)
    return [...cleared, ...changed.map(({ topic, payload }) => ({ topic, payload }))]
  }

  #isKept({ topic, presence }: WantedMessage, nowMs: number): boolean {
    if (presence !== 'missing') this.#missingSinceMs.delete(topic)
    if (presence === 'known') return true
    if (!this.#sent.has(topic) || presence === 'unknown') return this.#sent.has(topic)
    const sinceMs = this.#missingSinceMs.get(topic) ?? nowMs
    this.#missingSinceMs.set(topic, sinceMs)
    return nowMs - sinceMs < clearAfterMs
  }
}
