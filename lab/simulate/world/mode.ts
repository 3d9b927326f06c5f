import type { Answer } from './answer.ts'

/** A way of answering. It delivers the answer's tokens and ends it, by events on the world's clock. */
export interface Mode {
  begin(answer: Answer): void
}
