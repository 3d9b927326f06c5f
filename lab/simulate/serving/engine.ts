/** An answer that the engine makes with the whole model. */
export interface EngineAnswer {
  readonly promptTokens: number
  /** Of the prompt's beginning: rows that a cached prefix holds. */
  readonly cachedTokens: number
  readonly outputTokens: number
  /** Clients share the engine evenly; absent: all answers are of one, as in the papers. */
  readonly client?: string
  /** That its reader takes. */
  readonly tokensPerS: number
  /** Another token is there; called `outputTokens` times unless the answer is stopped. */
  token(): void
  /** The queue is full, for this answer or after it came; nothing else is called. */
  refused(): void
}

/** Rows of hidden states that a device sends through the model's middle (HAT). */
export interface EngineRows {
  readonly rows: number
  /** Rows whose deep states are returned; fewer than `rows`: the rows of a prompt. */
  readonly returned: number
  /** The last rows of this piece were computed, after so many seconds in the engine, waiting included. */
  done(cloudS: number): void
  /** They have waited too long for memory. The session is closed, and nothing more is called. */
  failed?(): void
}

export interface SimulatedEngineSession {
  readonly contextLength: number
  /** One piece after the other is computed, in the order given. */
  send(piece: EngineRows): void
  /** Rejected rows of a draft: the context ends after so many rows. No rows wait. */
  truncate(length: number): void
  close(): void
}

export interface EngineFigures {
  readonly steps: number
  readonly rows: number
  readonly busyS: number
  /** Of a step at one stage of the pipeline: mean and standard deviation. */
  readonly stageMs: number
  readonly stageDeviationMs: number
  readonly preemptions: number
  readonly savedBytes: number
  readonly loadedBytes: number
}
