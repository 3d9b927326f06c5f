/** Events in the order in which they happened, for one reader. */
export class Inbox<Event> {
  readonly #events: Event[] = []
  #failure: { readonly error: unknown } | undefined
  #wake = () => {}

  push(event: Event): void {
    this.#events.push(event)
    this.#wake()
  }

  /** The reader gets the first failure in place of all further events. */
  fail(error: unknown): void {
    this.#failure ??= { error }
    this.#wake()
  }

  /** Waits for an event. @throws what failed */
  async next(): Promise<Event> {
    for (;;) {
      if (this.#failure) throw this.#failure.error
      const event = this.#events.shift()
      if (event !== undefined) return event
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}
