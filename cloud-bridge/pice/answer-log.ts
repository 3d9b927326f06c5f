import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'

/** What is written of an answer before it is sent, in this order: a plan, sentences in any order, then perhaps `full` and its text. */
export type PiceRecord = SketchRecord | SentenceRecord | FullRecord | TextRecord

/** The sketch is complete. */
export interface SketchRecord {
  readonly kind: 'sketch'
  readonly lines: readonly string[]
  /** l: expected length of the answer, in tokens of the LLM. */
  readonly expectedTokens: number
  /** Without what its sentences add. */
  /** As in `SketchPlan`; absent: whatever is left of f(l). */
  readonly withinS?: number
  /** Predicted, from the end of the sketch. */
  readonly expansionS?: number
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
}

/** A piece of a full answer of another server. */
export interface TextRecord {
  readonly kind: 'text'
  readonly text: string
  readonly tokens: number
  readonly end: 'stop' | 'length' | null
}
