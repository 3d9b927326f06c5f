import type { SimulatedStream, StreamHost } from './simulated-stream.ts'

/** What the owners of streams ask of the engine. */
export interface OwnerHost extends StreamHost {
  readonly nowMs: number
  after(delayMs: number, action: () => void): void
  /** New rows of the stream wait, behind those of the other streams. */
  enqueue(stream: SimulatedStream): void
  /** The stream takes part in nothing any more; its memory is free after the step that holds it, if any. */
  close(stream: SimulatedStream): void
}
