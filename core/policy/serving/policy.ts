import type { CachedPrefix, KvUsage } from '../admission/kv.ts'

/**
 * What a step holds. `prefill`: rows of a prompt. `decode`: the row of one new token. `verify`: the rows of a draft.
 */
export type Phase = 'prefill' | 'decode' | 'verify'

/**
 * Where a stream's KV is. `resident`: in the fast tier, so that it can run. `evicted`: not there; a new stream begins so too.
 * `in flight`: a step or a transfer between the tiers uses it, so that it can be neither run nor preempted now.
 */
export type Residency = 'resident' | 'evicted' | 'in flight'

/** How an evicted stream comes back: its KV is copied from the slow tier, or computed again from its tokens. */
export type Resumption = 'load' | 'recompute'

/**
 * The consumer of a stream's tokens while they are generated (TokenFlow §3.2). A consumer that does not read them as they
 * come, such as an agent, has a reference rate, which sets its priority.
 */
export interface ReaderState {
  /** Tokens per second that the reader takes, > 0. */
  readonly tokensPerS: number
  /** When the request arrived. */
  readonly requestedMs: number
  /** When its first token was sent; undefined before. */
  readonly firstTokenMs: number | undefined
  /** When the reader has read all tokens sent so far: in the past, it stalls since then. Undefined before the first token. */
  readonly drainedMs: number | undefined
  /** Tokens sent so far. */
  readonly sent: number
  /** Tokens of the whole answer, at most. */
  readonly maxTokens: number
}

/** A stream as a policy sees it. */
export interface StreamState {
  readonly id: number
  /** Whose it is: a device, or a client of the API. Clients share the engine evenly. */
  readonly client: string
  /** A device's hidden states, or the tokens of an answer of the bridge's own. */
  readonly source: 'device' | 'answer'
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
  /** Of a resident stream: what computing its waiting rows would charge in addition. */
  readonly growthBytes: number
  /** Charge of the stream, or of its resumption, once the longest answer is complete; `kvBytes` where that is unknown. */
  readonly fullBytes: number
  readonly residency: Residency
  /** Of an evicted stream: what can bring it back; `recompute` alone where the slow tier lacks rows. */
  readonly resumptions: readonly Resumption[]
  /** Rows that the slow tier holds already: eviction has only the others left to write. */
  readonly writtenRows: number
  readonly reader: ReaderState | undefined
}

/** What the bridge has measured about itself; undefined before the first measurement. */
export interface ServingSpeeds {
  /** Γ of TokenFlow Eq. 6: tokens per second of all streams together, while steps follow one another. */
  readonly tokensPerS: number | undefined
  /** Seconds per row of a prompt. */
  readonly prefillSPerRow: number | undefined
  /** Predicted seconds of a step of so many rows, > 0. */
  readonly stepSOf: (rows: number) => number | undefined
  /** Of KV from the fast to the slow tier, and back. */
  readonly evictBytesPerS: number | undefined
  readonly loadBytesPerS: number | undefined
}

/** The input of a decision about the next step, apart from the time. */
export interface ServingState {
  /** Streams with waiting rows, in the order in which the rows arrived. */
  readonly waiting: readonly StreamState[]
  /** The other streams, which a policy may preempt. Collected when it is read. */
  readonly idle: readonly StreamState[]
  /** Oldest first. Collected when it is read. */
  readonly cached: readonly CachedPrefix[]
  /** The fast tier: what steps compute with. */
  readonly memory: KvUsage
  /** Of the fast tier: what evictions under way are about to free. */
  readonly leavingBytes: number
  /** The slow tier; undefined where there is none, so that eviction means recomputation. */
  readonly slow: Pick<KvUsage, 'budgetBytes'> | undefined
  readonly speeds: ServingSpeeds
  /** What one step can hold. */
  readonly step: { readonly rows: number; readonly streams: number }
  /** When a step that decoded or verified last began; undefined before the first. */
  readonly lastDecodeMs: number | undefined
}

/** The parts of a plan in the order in which they are carried out. */
export interface ServingPlan {
  /** Handles of cached prefixes whose memory is freed. */
  readonly evict: readonly string[]
  /** Streams whose KV leaves the fast tier. */
  readonly preempt: readonly number[]
  /** Evicted streams whose KV is restored. A load takes until a later plan; rows to recompute wait like those of a prompt. */
  readonly resume: readonly { readonly stream: number; readonly by: Resumption }[]
  /** The next step: the first `rows` waiting rows of each stream, at least one. Empty: no step begins now. */
  readonly run: readonly { readonly stream: number; readonly rows: number }[]
  /** When to plan again if nothing has changed until then; undefined: only after a change. */
  readonly lookAgainAtMs: number | undefined
}

/**
 * Decides what the next step computes, and which streams hold memory. Without clock or I/O; it may remember its earlier plans,
 * so that each Serving needs a policy of its own.
 */
export interface ServingPolicy {
  /** Whether a device's stream with a reader may be preempted for any other stream, an earlier or a later one. */
  readonly heedsReaders?: boolean
  plan(state: ServingState, nowMs: number): ServingPlan
}
