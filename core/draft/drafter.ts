import type { DrafterRecord } from '../policy/hat/drafter-choice.ts'
import type { DraftTree } from '../policy/hat/tree.ts'
import type { KnownStream } from './device-stream.ts'

export interface Drafted {
  readonly token: number
  /** How sure the drafter is of it, 0..1: a draft model's largest probability. */
  readonly topProbability: number
}

/** Guesses what the LLM will choose, one token after another. */
export interface Drafter {
  /**
   * What follows the stream's last position: one token, or several at once from a drafter that needs no states of the
   * first ones for the others. None: no guess, the draft ends.
   */
  next(known: KnownStream): Promise<readonly Drafted[]>
  /** Takes in what it has not seen, at a moment when nobody waits for it. */
  catchUp(known: KnownStream): Promise<void>
  /** All but the first `length` positions have been rejected. */
  truncate(length: number): void
  /** A round has ended: the tokens that it added to the answer, and the seconds from the draft's first step to them. */
  ended?(tokens: number, seconds: number): void
  /** Where there was a choice: what was chosen, and how each has fared. */
  report?(): DraftReport
  release(): void
}

export interface DraftReport {
  /** Used but for trials; `none`: speculation was switched off, as it lost. */
  readonly chosen: string
  readonly drafters: readonly DrafterRecord[]
}

/** Guesses several continuations at once, from what is verified alone. */
export interface TreeDrafter {
  /** @param deepest most tokens from the pending one downwards, >= 0 */
  tree(known: Pick<KnownStream, 'deep'>, deepest: number): Promise<DraftTree>
}

/** Plain U-shaped decoding. */
export function noDrafter(): Drafter {
  return { next: async () => [], catchUp: async () => {}, truncate() {}, release() {} }
}
