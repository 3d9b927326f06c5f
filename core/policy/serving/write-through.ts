/** Rows of a page, the unit of transfer: a row alone would be copied in hundreds of pieces, one for each head of each layer. */
export const pageRows = 16

/** A stream with rows that the slow tier lacks. */
export interface UnsavedRows {
  /** Its next page, in bytes, > 0. */
  readonly duePageBytes: number
  /** Complete pages that it could save. */
  readonly duePages: number
  /** When its reader will have read everything that was sent; the lowest number where it has none. */
  readonly drainedMs: number
}

/**
 * The pages that are written during the next step (TokenFlow §5.2): as many as fit, so that no plan waits for them, and at
 * least one, so that writing proceeds. The largest buffers go first: their streams are preempted first.
 * @param bytes that can be written in the time of the step
 * @returns a stream for each page, in the order of writing
 */
export function pagesToSave<Stream extends UnsavedRows>(streams: readonly Stream[], bytes: number): Stream[] {
  const pages: Stream[] = []
  let leftBytes = bytes
  for (const stream of streams.toSorted((a, b) => b.drainedMs - a.drainedMs))
    for (let page = 0; page < stream.duePages; page++) {
      if (pages.length > 0 && leftBytes < stream.duePageBytes) return pages
      leftBytes -= stream.duePageBytes
      pages.push(stream)
    }
  return pages
}
