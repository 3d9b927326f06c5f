import type { Sampling } from '../../core/model/engine/sampler.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'

/** What one model has to expand of one sketch. */
export interface SketchWork {
  /** Index of the sketch in the job. */
  readonly sketch: number
  readonly query: readonly ChatMessage[]
  readonly lines: readonly string[]
  readonly groups: readonly GroupWork[]
  /** Of the expansion of each line, in tokens of the small model: without room for `min` its prompt has to be shorter. */
  readonly lengths: readonly { readonly min: number; readonly expected: number; readonly max: number }[]
}

/** Lines that are expanded one after another, in one sequence. */
export interface GroupWork {
  readonly candidate: number
  /** Indices of the lines, at least one. */
  readonly sentences: readonly number[]
  readonly sampling: Sampling
}

/** A line that has been expanded. */
export interface WrittenSentence {
  readonly sketch: number
  readonly sentence: number
  readonly candidate: number
  /** As the model has written it. */
  readonly reply: string
  readonly tokens: number
  readonly meanLog2Probability: number | null
  /** Whether the limit of its length or the context cut it. */
  readonly isCut: boolean
}

/** What the expansions of one model have cost. */
export interface ExpansionCost {
  /** Sequences of a step, on average. */
  readonly parallel: number
  readonly promptTokens: number
  /** Positions of prompts that were computed. */
  readonly prefilledTokens: number
}

export interface ExpandOptions {
  /** That are decoded together, ≥ 1. */
  readonly maxSequences: number
  /** Called as soon as a sentence is finished. */
  readonly onSentence: (sentence: WrittenSentence) => void
  readonly signal: AbortSignal
}
