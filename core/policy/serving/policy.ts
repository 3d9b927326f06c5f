import type { CachedPrefix, KvUsage } from '../admission/kv.ts'

/**
 * What a step holds. `prefill`: rows of a prompt. `decode`: the row of one new token. `verify`: the rows of a draft.
 */
export type Phase = 'prefill' | 'decode' | 'verify'

/** Where a stream's KV is. `in flight`: a step is using it, so that it can be neither run nor preempted now. */
export type Residency = 'resident' | 'evicted' | 'in flight'

/** A stream as a policy sees it. */
export interface StreamState {
  readonly id: number
  /** Rows that wait to be computed, 0 where the stream is idle. */
  readonly waitingRows: number
  /** Of the waiting rows. */
  readonly phase: Phase
  /** When the waiting rows arrived. */
  readonly arrivedMs: number
  /** Steps that began without the stream since then, though it could have run. */
  readonly stepsSkipped: number
  /** Rows that the stream holds already. */
  readonly contextLength: number
  /** KV memory that the stream is charged; for an evicted one what its resumption would charge in addition. */
  readonly kvBytes: number
  readonly residency: Residency
}

/** The input of a decision about the next step, apart from the time. */
export interface ServingState {
  /** Streams with waiting rows, in the order in which the rows arrived. */
  readonly waiting: readonly StreamState[]
  /** The other streams, which a policy may preempt. Collected when it is read. */
  readonly idle: readonly StreamState[]
  /** Oldest first. Collected when it is read. */
  readonly cached: readonly CachedPrefix[]
  readonly memory: KvUsage
  /** What one step can hold. */
  readonly step: { readonly rows: number; readonly streams: number }
  /** When a step that decoded or verified last began; undefined before the first. */
  readonly lastDecodeMs: number | undefined
}

/** The parts of a plan in the order in which they are carried out. */
export interface ServingPlan {
  /** Handles of cached prefixes whose memory is freed. */
  readonly evict: readonly string[]
  /** Streams whose KV leaves the memory. They stay charged for a copy of their rows without spare capacity. */
  readonly preempt: readonly number[]
  /** Evicted streams whose KV is restored. */
  readonly resume: readonly number[]
  /** The next step: the first `rows` waiting rows of each stream, at least one. Empty: no step begins now. */
  readonly run: readonly { readonly stream: number; readonly rows: number }[]
  /** When to plan again if nothing has changed until then; undefined: only after a change. */
  readonly lookAgainAtMs: number | undefined
}

/** Decides what the next step computes, and which streams hold memory. Pure: `lab` runs the same policies in simulations. */
export interface ServingPolicy {
  plan(state: ServingState, nowMs: number): ServingPlan
}
