/** A token as its bytes, which may be part of a character, and its natural log probability. */
export interface ScoredText {
  /** Its id in the vocabulary of its model. */
  readonly token: number
  readonly bytes: Uint8Array
  readonly logprob: number
}

/** A token of an answer, and the likeliest tokens at its position in descending order. */
export interface ChosenText extends ScoredText {
  readonly top: readonly ScoredText[]
}
