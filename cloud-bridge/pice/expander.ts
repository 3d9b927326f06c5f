import type { FleetView } from '../../core/policy/pice/state.ts'
import type { ExpandedSentence } from '../../core/wire/protocol/expansion.ts'
import type { SketchInput } from '../../core/wire/protocol/jobs.ts'

/** A candidate for a sentence of an answer, and the device that wrote it. */
export type Expanded = Omit<ExpandedSentence, 'sketch'> & { readonly device: string }

export interface ExpansionRequest {
  /** Names the answer in the queue and in logs; a request with a known id continues that expansion after a restart. */
  readonly id: string
  /** That asked for the answer, as `clientOf`: clients share the devices evenly. */
  readonly client: string
  readonly input: SketchInput
  /** By when all sentences must have arrived, ms from now; what is missing then is left to the caller. */
  readonly deadlineMs: number
}

/** Expands sketches on the fleet: the bounded lists of PICE's Algorithm 1 before the durable queue. */
export interface Expander {
  /** What a plan needs to know now. From the first call on, devices without a profile are asked for one. */
  view(): FleetView
  /**
   * Each candidate of each requested sentence once, as they arrive, in any order; ends when all have arrived. Expansions that fail,
   * expire, or whose device vanishes are given to another device. Aborting the signal cancels what is not expanded yet.
   * @throws BrimError QUEUE_FULL before any work; EXPANSION_FAILED when no device is left, the attempts are spent or the deadline
   * has passed: what has arrived stays valid; CANCELED
   */
  expand(request: ExpansionRequest, signal: AbortSignal): AsyncGenerator<Expanded, void>
  /** Tells how good a device's expansion of a sentence is (Eq. 3, 0..1): the mean is the ability of its model there. */
  judge(device: string, model: string, confidence: number): void
}
