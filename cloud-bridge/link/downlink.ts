import type { BrokerLink } from './control.ts'

/**
 * What the bridge publishes to its devices. Parts use it before the link to the broker exists; until then, and during an
 * outage, messages are dropped, and their senders repeat what matters.
 */
export class Downlink {
  readonly #after: (send: () => void) => void
  #link: BrokerLink | undefined

  /** @param after holds messages to devices back until what was stored before is safe. Absent: it is */
  constructor(after: (send: () => void) => void = (send) => send()) {
    this.#after = after
  }

  attach(link: BrokerLink): void {
    this.#link = link
  }

  /** Whether what is published now reaches the broker. */
  get isConnected(): boolean {
    return this.#link?.connected === true
  }

  readonly publish: BrokerLink['publish'] = (device, leaf, message) =>
    this.#after(() => this.#link?.publish(device, leaf, message))

  readonly retain: BrokerLink['retain'] = (topic, message) => this.#link?.retain(topic, message)

  publishState(): void {
    this.#link?.publishState()
  }
}
