import type { ExpansionTime } from '../../../../core/policy/pice/expansion-deadline.ts'
import type { Answer } from '../../world/answer.ts'

/** A sketch, and what it will be expanded to. */
export interface WrittenSketch {
  readonly promptTokens: number
  readonly sketchTokens: number
  /** l, as foreseen. */
  readonly expectedTokens: number
  /** Words of each line. */
  readonly words: readonly number[]
  /** Tokens that each line's expansion really has. */
  readonly tokens: readonly number[]
}

export interface SimulatedExpansion extends ExpansionTime {
  readonly answer: Answer
  readonly sketch: WrittenSketch
  /** Expansions of each line. */
  readonly candidates: number
  /** A candidate of a line has arrived. */
  arrived(sentence: number): void
  /** All have arrived, or no more will. */
  ended(): void
}

/** What a job expands of a sketch. */
export interface ExpansionPart {
  readonly request: SimulatedExpansion
  /** Indices of the lines. */
  readonly missing: readonly number[]
  /** The bridge has a candidate of a line. */
  take(sentence: number, candidate: number): void
}
