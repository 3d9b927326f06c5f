/** What changed in a device's record. */
export type FleetChange = 'state' | 'telemetry' | 'labels' | 'commands' | 'log'
type Subscriber = (device: string, what: FleetChange) => void

/** Notifies subscribers of changes; they read the new values themselves. */
export class FleetFeed {
  readonly #all = new Set<Subscriber>()
  /** By device, so that a change costs nothing to subscribers of another device. */
  readonly #byDevice = new Map<string, Set<Subscriber>>()

  publish(device: string, what: FleetChange): void {
    for (const notify of [...this.#all, ...(this.#byDevice.get(device) ?? [])]) notify(device, what)
  }

  /**
   * @param device absent: every device
   * @returns a function that ends the subscription
   */
  subscribe(notify: Subscriber, device?: string): () => void {
    if (device === undefined) {
      this.#all.add(notify)
      return () => this.#all.delete(notify)
    }
    const own = this.#byDevice.get(device) ?? new Set()
    this.#byDevice.set(device, own.add(notify))
    return () => {
      own.delete(notify)
      if (own.size === 0 && this.#byDevice.get(device) === own) this.#byDevice.delete(device)
    }
  }
}
