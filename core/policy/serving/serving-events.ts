import type { FullQueue } from './answer-queue.ts'
import type { Phase } from './policy.ts'
import type { Reader } from './reader.ts'
import type { MeasuredStep } from './step-speeds.ts'

/** A stream's rows in one step. */
export interface StepPiece {
  readonly stream: number
  readonly rows: number
  /** Of the rows that waited when the step began, and how many did. */
  readonly phase: Phase
  readonly waitingRows: number
  readonly contextLength: number
  readonly arrivedMs: number
}

/** Rows that a stream can begin with instead of computing them. */
export interface FoundRows {
  readonly rows: number
  /** Of the cached prefix that holds them, which has so many rows; absent: they are elsewhere. */
  readonly cached?: { readonly handle: string; readonly rows: number } | undefined
  /** Leading rows in complete pages of the slow tier, which are the stream's now. Beyond `rows`: they are loaded. Absent: none. */
  readonly saved?: number | undefined
}

/** Whose a stream is, and its id: ids rise in the order in which streams are opened. */
export interface StreamOwner {
  readonly stream: number
  readonly owner: string
  readonly client: string
}

type StreamInput =
  /** A device's stream. Without memory for its first positions it waits for them, as `admitted` or `fail` tells. */
  | ({
      readonly kind: 'session opened'
      readonly positions: number
      /** Of a simulated device, which keeps it up to date; absent: its reports tell. */
      readonly reader?: Reader | undefined
    } & StreamOwner)
  /** A device's stream that takes a cached prefix over. */
  | ({ readonly kind: 'session resumed'; readonly handle: string; readonly rows: number } & StreamOwner)
  /**
   * An answer of the whole model. Its rows wait until they have their memory. See `refused`, `displaced`.
   * @param tokensPerS that its reader takes, > 0
   */
  | ({
      readonly kind: 'answer opened'
      readonly tokensPerS: number
      readonly rows: number
      readonly following: number
    } & StreamOwner)
  /**
   * More rows wait, behind those of the other streams. None of the stream's waited. Those of an answer are the token that the last
   * step has chosen.
   * @param following rows that may follow them
   */
  | { readonly kind: 'rows'; readonly rows: number; readonly phase: Phase; readonly following: number }
  /** The reader takes tokens at another rate. */
  | { readonly kind: 'rate'; readonly tokensPerS: number }
  /** How the reader of a device's stream stands. @param unread tokens that it has and has not read, >= 0 */
  | { readonly kind: 'reported'; readonly tokensPerS: number; readonly unread: number }
  /** The owner has dropped or moved rows; the first `unmoved` are as they were. */
  | { readonly kind: 'reshaped'; readonly length: number; readonly line: number; readonly unmoved: number }
  /** The owner is to hold so many bytes beside the KV; `heldBytes` of the stream stays as it was where the memory is exhausted. */
  | { readonly kind: 'held'; readonly bytes: number }
  /**
   * The stream ends, after the step that holds it.
   * @param keep leading rows that are left to a later stream
   * @param leaves whether its pages in the slow tier are: complete ones that are not there yet are saved before it ends
   */
  | { readonly kind: 'closing'; readonly keep?: number | undefined; readonly leaves?: boolean | undefined }
  /** What becomes of a closed stream's KV: it is released, or cached under a handle. */
  | { readonly kind: 'released' }
  | { readonly kind: 'cached'; readonly handle: string }
  /** In reply to `restart`, and at any time for a stream without rows: rows that it can begin with. */
  | ({ readonly kind: 'found' } & FoundRows)
  /** The rows that were found could not be copied. */
  | { readonly kind: 'not found' }
  /** `full`: the slow tier lacked the bytes. */
  | { readonly kind: 'saved'; readonly outcome: 'saved' | 'full' | 'failed'; readonly seconds: number }
  /** `lost`: the slow tier no longer has the rows. `failed`: they could not be written to the memory. */
  | { readonly kind: 'loaded'; readonly outcome: 'loaded' | 'lost' | 'failed'; readonly seconds: number }

/** What has happened. */
export type ServingInput =
  | (StreamInput & { readonly stream: number })
  | { readonly kind: 'prefix dropped'; readonly handle: string }
  /** In reply to `compare`: streams that wait for others' rows, and those for which there are more rows than they have. */
  | { readonly kind: 'compared'; readonly waiting: readonly number[]; readonly behind: readonly number[] }
  /** The rows of a step have left the first stage of a pipeline. */
  | { readonly kind: 'step entered'; readonly step: number }
  /**
   * @param runs what was computed together: the whole step, or each stream's rows alone where the whole step failed
   * @param failed streams whose rows were not computed
   * @param trees streams whose rows branch after the first `line`
   */
  | {
      readonly kind: 'step ended'
      readonly step: number
      readonly runs: readonly MeasuredStep[]
      readonly failed: readonly number[]
      readonly trees: readonly { readonly stream: number; readonly line: number }[]
    }
  | { readonly kind: 'copy dropped' }
  /** Nothing else has happened until now. */
  | { readonly kind: 'tick' }
  /** Rejects what waits; no step begins any more. */
  | { readonly kind: 'stop' }

export type FailureReason = 'memory' | 'lost' | 'transfer' | 'stopped'

/** What is to be done, in this order. */
export type ServingAction =
  | { readonly kind: 'begin'; readonly step: number; readonly pieces: readonly StepPiece[] }
  /** Rows [from, to) to the slow tier. @param isDuringStep once the step that has begun computes */
  | { readonly kind: 'save'; readonly stream: number; readonly from: number; readonly to: number; readonly isDuringStep: boolean }
  /** Rows [from, to) back. @param reserve for so many rows there is memory already; 0: for the rows to load alone */
  | { readonly kind: 'load'; readonly stream: number; readonly from: number; readonly to: number; readonly reserve: number }
  /** Frees the buffers. The rows after the first `rows` are lost. */
  | { readonly kind: 'leave'; readonly stream: number; readonly rows: number }
  /** Frees the stream's pages in the slow tier. Answered by `copy dropped`. */
  | { readonly kind: 'drop copy'; readonly stream: number }
  /** The stream begins without rows. Answered by `found`, before anything else. */
  | { readonly kind: 'restart'; readonly stream: number }
  /** Before a step with streams that have computed no rows themselves. Answered by `compared`, before anything else. */
  | { readonly kind: 'compare'; readonly pieces: readonly { readonly stream: number; readonly rows: number }[] }
  /** The cached prefix is the stream's from now on, as far as its first `rows`. */
  | { readonly kind: 'take prefix'; readonly stream: number; readonly handle: string; readonly rows: number }
  | { readonly kind: 'copy prefix'; readonly stream: number; readonly rows: number }
  | { readonly kind: 'release prefix'; readonly handle: string }
  /** The stream has memory for its first rows. */
  | { readonly kind: 'admitted'; readonly stream: number }
  /** The rows that waited wait no more. `memory`: for `length` rows in all there is none. `lost`: earlier rows are. `transfer`: their load failed. */
  | { readonly kind: 'fail'; readonly stream: number; readonly why: FailureReason; readonly length: number }
  /** There is no place for the answer, which has not been opened; or no longer, because of another client's. */
  | { readonly kind: 'refused' | 'displaced'; readonly stream: number; readonly full: FullQueue }
  /** The stream has no step and no transfer any more. Answered by `released` or `cached`. */
  | { readonly kind: 'closed'; readonly stream: number; readonly holdsRows: boolean }
