import type { Side, StartDelays, TokenCosts } from './state.ts'

/** What the controller of an answer depends on, of one side. */
export interface ControlledSide {
  /** Whether it can go on with an answer that another endpoint began. */
  readonly continues: boolean
  /** Whether it may stop in the middle of an answer, and go on at once without new costs. */
  readonly pauses: boolean
  /** Undefined where a price is unknown. */
  readonly costs: TokenCosts | undefined
  /** Estimated time to its first token, in ms; Infinity: it is busy. @param tokens of the prompt, and of the answer so far */
  startMs(tokens: number): number
  /** Gap between its pieces after which the other side replaces it, if the reader would wait; absent: it is waited for. */
  readonly lateMs?: number | undefined
}

/** How one answer is to be made. At least one of its sides starts at a finite time. */
export interface ControllerPlan {
  readonly sides: Readonly<Partial<Record<Side, ControlledSide>>>
  readonly dispatch: StartDelays
  /** r_c, at which tokens are delivered; 0: as fast as they come. */
  readonly tokensPerS: number
  /** l. */
  readonly promptTokens: number
  /** The side that is to write the answer, once another one has begun it. Absent: whichever begins. */
  readonly preferred?: PreferredSide | undefined
  /**
   * Whether a source that was stopped goes on where the target is late: the buffer then lasts until the source's next token, too.
   * False: the paper's form, B of Eq. 6 lasts until the target's first token, and the reader waits for a later one. Default: true.
   */
  readonly returns?: boolean
  /** Expected tokens that are still to come. */
  expectedRemaining(tokensSoFar: number): number
  readonly learn: StartListener
}

/** Tokens are those of the prompt and of the answer so far. */
export interface StartListener {
  started(side: Side): void
  firstToken(side: Side, ms: number, tokens: number): void
  /** A side was stopped before its first token, which would have come later than after so many ms: a censored observation. */
  canceled(side: Side, ms: number, tokens: number): void
  /** Time between two pieces of a side. @param tokens of the second one */
  gap(side: Side, ms: number, tokens: number): void
  failed(side: Side): void
}

/** What happens to an answer. */
export type ControllerInput<P extends Piece> =
  /** First of all. */
  | { readonly kind: 'begin' }
  /** @param isHeld whether the sides are not read, because the reader has not taken what was delivered */
  | { readonly kind: 'tick'; readonly isHeld?: boolean }
  /** A side that was started has sent a piece. */
  | { readonly kind: 'received'; readonly side: Side; readonly piece: P }
  /** A side that was started refuses, cannot be reached, or has broken off. */
  | { readonly kind: 'failed'; readonly side: Side }
  /** A side that has failed, or was silent, may be tried again. */
  | { readonly kind: 'reachable'; readonly side: Side }
  /** The reader has left, or the answer cannot go on, perhaps because a side has failed for good: all work ends. */
  | { readonly kind: 'left'; readonly failed?: Side }

export interface PreferredSide {
  readonly side: Side
  /** 'cost': it decodes for less, and takes over where that pays (DiSCo Eq. 4, 5); 'return': it takes over once it is reachable again. */
  readonly reason: 'cost' | 'return'
}

/** What is delivered at once. */
export interface Piece {
  readonly tokens: number
  /** Whether the answer ends with it. */
  readonly isLast: boolean
  /** What ends before it. Sides that share no tokens hand over at the end of a word if they can, else at that of a character. */
  readonly border: 'word' | 'character' | 'none'
}

/** What is to be done at once, in the order of the actions. */
export type ControllerAction<P extends Piece> =
  /** Begins the answer, or goes on `after` these pieces: of those, the reader may not have read all yet. */
  | { readonly kind: 'start'; readonly side: Side; readonly after: readonly P[] }
  /** A side that pauses is no longer read. */
  | { readonly kind: 'pause' | 'resume'; readonly side: Side }
  /** Ends the side's work. Nothing more is expected from it, unless it starts again. */
  | { readonly kind: 'stop'; readonly side: Side }
  | { readonly kind: 'deliver'; readonly piece: P }
  /** No side can go on. Everything before has been delivered. */
  | { readonly kind: 'fail' }

/** What a side has processed, tokens that were thrown away included. */
export interface SideWork {
  /** Of the prompt, and of the answer so far where the side continued one. */
  readonly promptTokens: number
  readonly tokens: number
}

/** One attempt to have an answer continued by the other side. */
export interface Migration {
  readonly from: Side
  readonly to: Side
  /** 'failure': the source broke off; 'silence': it sent nothing more. */
  readonly reason: PreferredSide['reason'] | 'failure' | 'silence'
  /** Tokens of the answer before it. */
  readonly afterTokens: number
  /** Tokens that the reader had not read when the source stopped. */
  readonly bufferTokens: number
  /** Tokens that came later than the reader was to read them because of it. */
  readonly delayedTokens: number
  /** Whether the target took over; false: the source went on. */
  readonly succeeded: boolean
}
