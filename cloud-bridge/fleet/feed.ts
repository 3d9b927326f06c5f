/** What of a device has changed. */
export type FleetChange = 'state' | 'telemetry' | 'labels' | 'commands' | 'log'

/** Tells those who watch that something has changed; what it is now they look up. */
export class FleetFeed {
  readonly #watchers = new Set<(device: string, what: FleetChange) => void>()

  publish(device: string, what: FleetChange): void {
    for (const tell of [...this.#watchers]) tell(device, what)
  }

  /** @returns ends it */
  subscribe(tell: (device: string, what: FleetChange) => void): () => void {
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }
}
