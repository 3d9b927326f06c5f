import type { KvUsage } from '../../../core/policy/admission/kv.ts'
import type { StateMonitor } from '../../../core/policy/estimate/state-monitor.ts'
import type { Reader } from '../../../core/policy/serving/reader.ts'

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

export interface EngineSession {
  readonly contextLength: number
  /** One piece after the other is computed, in the order given. */
  send(piece: EngineRows): void
  /** Rejected rows of a draft: the context ends after so many rows. No rows wait. */
  truncate(length: number): void
  close(): void
}

/** The bridge's engine on the virtual clock: streams, KV in two tiers, and the policy that plans its steps. */
export interface Engine {
  readonly memory: KvUsage
  /** Answers and sessions that are open. */
  readonly load: number
  /** @returns stops it; nothing more is called */
  answer(answer: EngineAnswer): () => void
  /** @param held rows of a cached prefix; the session begins without them where the memory cannot hold them */
  session(reader?: Reader, held?: number): EngineSession
  /** Its load and the delay of its steps, as chunk sizes follow from them. */
  readonly monitor: StateMonitor
  readonly figures: EngineFigures
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
