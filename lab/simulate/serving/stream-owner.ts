import type { ServedStream } from '../../../core/policy/serving/served-stream.ts'
import type { ServingInput } from '../../../core/policy/serving/serving-events.ts'

/** What a stream's rows are for. */
export interface StreamOwner {
  /** A step has computed the next `rows` rows; the stream's context holds them. */
  computed(rows: number): void
  /** All rows that waited are past the first stage of a pipeline, so that the next ones of a prompt may follow. */
  entered(): void
  /** It has memory for its first rows. */
  admitted(): void
  /** What waited waits no more, for want of memory or of a place in the queue. */
  failed(): void
  /** Rows of its beginning that a cached prefix holds. */
  readonly cachedRows: number
}

/** What the owners of streams ask of the engine. */
export interface OwnerHost {
  readonly nowMs: number
  feed(input: ServingInput): void
  /** @throws Error where it is not open */
  stream(id: number): Readonly<ServedStream>
  /** The stream takes part in nothing any more; its memory is free after the step that holds it, if any. */
  close(id: number): void
}
