/** One start of a side, and where its tokens go. */
export interface SimulatedRun {
  /** Of the prompt, and of the answer so far. */
  readonly contextTokens: number
  /** That are left to write, >= 1. */
  readonly tokens: number
  /** Another token is there. */
  token(): void
  /** It refuses: nothing else is called. */
  failed(): void
}

/** One side at work on one answer. Nothing of a run is called while it is paused, nor after `stop`. */
export interface SimulatedSide {
  start(run: SimulatedRun): void
  /** Absent: a plan does not let it pause. */
  pause?(): void
  /** The step that was begun is made again. */
  resume?(): void
  stop(): void
}
