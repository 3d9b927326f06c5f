/**
 * What PICE asks its models. Each text becomes the last paragraph of the last user message, so that foresight, sketch and the full
 * answer share the KV of everything before it, and the expansions of one sketch that of query and sketch.
 * Placeholders: {level} and {words} in `sketch`, {sketch} and {line} in `expand`, {line} in `expandNext`.
 */
export interface PicePrompts {
  /** Asks for the answer's length; the reply is a number of `foresightUnit`. */
  readonly foresight: string
  readonly foresightUnit: 'tokens' | 'words'
  readonly sketch: string
  /** Sketch levels, longest first: the expected share of the full answer's tokens at level 1, 2, … */
  readonly sketchShares: readonly number[]
  readonly expand: string
  /** Asks for another line in the same conversation. */
  readonly expandNext: string
}

/** The forms that the models of this repository are trained on (scripts/train/tasks.py). */
export const trainedPrompts: PicePrompts = {
  foresight: 'How many tokens will your answer have? Reply with the number only.',
  foresightUnit: 'tokens',
  sketch: 'Sketch your answer at level {level}: one line per sentence, key words only.',
  sketchShares: [0.45, 0.38, 0.32],
  expand: 'Sketch of your answer:\n{sketch}\n\nWrite out this line and no other:\n{line}',
  expandNext: 'Write out this line and no other:\n{line}',
}
