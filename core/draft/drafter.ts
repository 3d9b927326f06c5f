import type { DraftTree } from '../policy/hat/draft-tree.ts'
import type { DrafterRecord } from '../policy/hat/drafter-choice.ts'
import type { KnownStream } from './device-stream.ts'

export interface Drafted {
  readonly token: number
  /** How sure the drafter is of it, 0..1: a draft model's largest probability. */
  readonly topProbability: number
  /** What else it might be, the likeliest first; nothing from a drafter without probabilities. */
  readonly others: readonly number[]
}

/** What every drafter of a session goes through. */
export interface DrafterLife {
  /** Takes in what it has not seen, at a moment when nobody waits for it. */
  catchUp(known: KnownStream): Promise<void>
  /** Of the stream's rows the first `keep` and then exactly these are left, in this order. */
  gather(keep: number, rows: readonly number[]): void
  /** A round has ended: the tokens that it added to the answer, and the seconds from the draft's first step to them. */
  ended?(tokens: number, seconds: number): void
  /** Where there was a choice: what was chosen, and how each has fared. */
  report?(): DraftReport
  release(): void
}

/** Guesses what the LLM will choose, one token after another. */
export interface Drafter extends DrafterLife {
  /** Whether it is worth while to draft on behind what is being verified. Absent: yes. */
  readonly ahead?: boolean
  /**
   * What follows each of these rows of the stream, which nothing follows yet: one token, or several at once from a drafter
   * that needs no states of the first ones for the others. None: no guess, the draft ends.
   */
  next(known: KnownStream, rows: readonly number[]): Promise<readonly (readonly Drafted[])[]>
}

export interface DraftReport {
  /** Used but for trials; `none`: speculation was switched off, as it lost. */
  readonly chosen: string
  readonly drafters: readonly DrafterRecord[]
}

/** Guesses several continuations at once, from what is verified alone. */
export interface TreeDrafter extends DrafterLife {
  /** @param deepest most tokens from the pending one downwards, >= 0 */
  tree(known: Pick<KnownStream, 'deep'>, deepest: number): Promise<DraftTree>
}

/** What a drafter does that remembers nothing. */
export const withoutMemory: DrafterLife = { catchUp: async () => {}, gather() {}, release() {} }

/** Plain U-shaped decoding. */
export function noDrafter(): Drafter {
  return { ...withoutMemory, next: async (_, rows) => rows.map(() => []) }
}
