import type { DraftTree } from '../policy/hat/draft-tree.ts'
import type { DrafterRecord } from '../policy/hat/drafter-choice.ts'
import type { KnownStream } from './device-stream.ts'

export interface DraftedToken {
  readonly token: number
  /** The drafter's confidence, 0..1: a draft model's largest probability. */
  readonly topProbability: number
  /** Other likely tokens in its place, the likeliest first; empty from a drafter without probabilities. */
  readonly alternatives: readonly number[]
}

/** What a session tells its drafter. */
export interface DrafterLifecycle {
  /** Processes rows that it has not seen, while the session waits for the bridge anyway. */
  catchUp(known: KnownStream): Promise<void>
  /** The stream keeps its first `keep` rows and then exactly these, in this order. */
  gather(keep: number, rows: readonly number[]): void
  /** A round has ended. @param tokens that it added to the answer @param seconds since the draft's first step */
  roundEnded?(tokens: number, seconds: number): void
  /** Where several drafters were measured: which is used, and how each has done. */
  report?(): DraftReport
  release(): void
}

/** Guesses the LLM's choices, one token after another. */
export interface Drafter extends DrafterLifecycle {
  /** Whether it should draft ahead during verifications; absent: yes. */
  readonly mayDraftAhead?: boolean
  /**
   * Guesses what follows each of these rows, which are ends of the stream: one token, or several from a drafter that needs
   * no states between them. An empty guess ends the draft.
   */
  next(known: KnownStream, rows: readonly number[]): Promise<readonly (readonly DraftedToken[])[]>
}

export interface DraftReport {
  /** The drafter used except for trials; `none`: drafting was switched off because it was slower. */
  readonly chosen: string
  readonly drafters: readonly DrafterRecord[]
}

/** Guesses several continuations at once, from verified states only. */
export interface TreeDrafter extends DrafterLifecycle {
  /** @param maxDepth maximum tokens after the pending one, >= 0 */
  tree(known: Pick<KnownStream, 'deep'>, maxDepth: number): Promise<DraftTree>
}

/** The lifecycle of a drafter without state. */
export const stateless: DrafterLifecycle = { catchUp: async () => {}, gather() {}, release() {} }

/** Plain U-shaped decoding. */
export function noDrafter(): Drafter {
  return { ...stateless, next: async (_, rows) => rows.map(() => []) }
}
