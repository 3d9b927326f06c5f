/** What changed in a device's record. */
export type FleetChange = 'state' | 'telemetry' | 'labels' | 'commands' | 'log'
type Subscriber = (device: string, what: FleetChange) => void

/** Notifies subscribers of changes; they read the new values themselves. */
export class FleetFeed {
  readonly #subscribers = new Set<Subscriber>()

  publish(device: string, what: FleetChange): void {
    for (const notify of [...this.#subscribers]) notify(device, what)
  }

  /** @returns a function that ends the subscription */
  subscribe(notify: Subscriber): () => void {
    this.#subscribers.add(notify)
    return () => this.#subscribers.delete(notify)
  }
}
