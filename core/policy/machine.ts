/**
 * What decides over time: an input with its time in, actions out. It holds no socket, timer, disk or promise, so that the live
 * system and the simulator drive the same one. Inputs and actions are plain data without text.
 */
export interface Machine<Input, Action> {
  /** @param nowMs of a clock that never goes back */
  handle(input: Input, nowMs: number): readonly Action[]
  /** When an input that only tells the time is due, if nothing happens before; undefined: never. */
  readonly wakeMs: number | undefined
}

/** For the inputs that nothing follows from. */
export const noActions: readonly never[] = []
