import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import type { OpeningPiece } from './opening.ts'

/**
 * What is written of an answer before it is sent: its sketch, sentences in any order, then perhaps `full` and its text. Where the first
 * sentences are sent while the LLM writes the sketch, its lines so far come before them, and all lines after them. An answer that the
 * LLM begins itself is `full` until there is a sketch. The last one counts.
 */
export type PiceRecord = SketchRecord | SentenceRecord | FullRecord | TextRecord

/** The sketch is complete, or text of its first lines is about to be sent. */
export interface SketchRecord {
  readonly kind: 'sketch'
  readonly lines: readonly string[]
  /** Of one that is not complete: by which it goes on. */
  readonly goesOn?: Pick<SketchPlan, 'level' | 'sketchTokens'>
  /** l: expected length of the answer, in tokens of the LLM. */
  readonly expectedTokens: number
  /** What the client has of the answer before its sentences: the first lines. Absent in logs of older releases. */
  readonly opening?: readonly OpeningPiece[]
  /** As in `SketchPlan`; absent: whatever is left of f(l). */
  readonly withinS?: number
  /** Predicted, from the end of the sketch. */
  readonly expansionS?: number
  /** Without what its sentences add. */
  readonly figures: PiceFigures
}

/** A sentence has its text. */
export interface SentenceRecord {
  readonly kind: 'sentence'
  /** Index of its line in the sketch. */
  readonly sentence: number
  readonly text: string
  /** Tokens of the text, as the LLM counts them where it runs here. */
  readonly tokens: number
  readonly source: SentenceSource
  /** Generated for it, all candidates. */
  readonly cloudTokens: number
  readonly edgeTokens: number
  /** Eq. 3; null for a sentence of the LLM. */
  readonly confidence: number | null
}

export interface SentenceSource {
  readonly kind: 'upstream' | 'bridge' | 'device'
  readonly model: { readonly name: string }
  readonly device?: string
}

/** The LLM answers in full. Of the bridge's own model, records of tokens follow. */
export interface FullRecord {
  readonly kind: 'full'
  readonly figures: PiceFigures
  /** What the client has of it: what follows begins after that. Absent in logs of older releases. */
  readonly opening?: readonly OpeningPiece[]
}

/** A piece of a full answer of another server. */
export interface TextRecord {
  readonly kind: 'text'
  readonly text: string
  readonly tokens: number
  readonly end: 'stop' | 'length' | null
}
