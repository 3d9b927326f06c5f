import type { GuessSource } from '../../policy/hat/draft-acceptance.ts'
import type { DraftTree } from '../../policy/hat/draft-tree.ts'
import type { DrafterRecord } from '../../policy/hat/drafter-choice.ts'
import type { KnownStream } from './device-stream.ts'

export interface DraftedToken {
  readonly token: number
  readonly source: GuessSource
  /** The source's confidence, 0..1: a draft model's largest probability. */
  readonly topProbability: number
  /** Other likely tokens in its place, the likeliest first; empty from a drafter without probabilities. */
  readonly alternatives: readonly number[]
}

/** Calls from a session to its drafter besides the drafting. */
interface DrafterLifecycle {
  /** Processes new rows of the stream, while the session waits for the bridge. */
  catchUp(known: KnownStream): Promise<void>
  /** The stream has kept its first `keep` rows, followed by `rows` in this order. */
  gather(keep: number, rows: readonly number[]): void
  /** A round has ended. @param tokens number that it added to the answer @param seconds since the draft's first step */
  roundEnded?(tokens: number, seconds: number): void
  /** The measurements of a drafter that chooses among several. */
  report?(): DraftReport
  release(): void
}

/** Guesses the LLM's next tokens, one after another. */
export interface Drafter extends DrafterLifecycle {
  /** Whether it drafts ahead during verifications. Default: true. */
  readonly mayDraftAhead?: boolean
  /**
   * Guesses the tokens after each of these rows, which are ends of the stream: one token, or several if the drafter needs no
   * states between them. An empty guess ends the draft.
   */
  next(known: KnownStream, rows: readonly number[]): Promise<readonly (readonly DraftedToken[])[]>
}

export interface DraftReport {
  /** The drafter used except in trials; `none`: drafting is off because it was slower. */
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
