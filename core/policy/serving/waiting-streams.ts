import type { ServedStream } from './served-stream.ts'

/** Streams whose rows wait, in the order in which the rows arrived. Mutable. */
export class WaitingStreams {
  /** Those of another `queueAt` have left their place. */
  #places: ServedStream[] = []

  add(stream: ServedStream): void {
    stream.queueAt = this.#places.length
    this.#places.push(stream)
  }

  /** Without the places that streams have left. Valid until the next `add`. */
  compact(): readonly ServedStream[] {
    const places = this.#places
    let kept = 0
    for (let at = 0; at < places.length; at += 1) {
      const stream = places[at]!
      if (stream.queueAt !== at) continue
      stream.queueAt = kept
      places[kept++] = stream
    }
    places.length = kept
    return places
  }
}
