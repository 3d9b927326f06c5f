import type { SimulatedStream } from './simulated-stream.ts'

/** Streams whose rows wait, in the order in which the rows arrived. Mutable. */
export class WaitingStreams {
  /** Those of another `queueAt` have left their place. */
  #places: SimulatedStream[] = []

  add(stream: SimulatedStream): void {
    stream.queueAt = this.#places.length
    this.#places.push(stream)
  }

  /** Without the places that streams have left. Valid until the next `add`. */
  compact(): void {
    const places = this.#places
    let kept = 0
    for (let at = 0; at < places.length; at += 1) {
      const stream = places[at]!
      if (stream.queueAt !== at) continue
      stream.queueAt = kept
      places[kept++] = stream
    }
    places.length = kept
  }

  /** As the policy sees them, after `compact`. */
  get all(): readonly SimulatedStream[] {
    return this.#places
  }
}
