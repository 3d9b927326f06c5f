import type { SketchPlan } from './sketch-plans.ts'
import type { WaitingExpansion } from './state.ts'

/** Sketches that the LLM is writing: plans count them among the expansions that wait, from when they will be complete. Mutable. */
export class SketchesUnderWay {
  readonly #sketches = new Map<string, { readonly expectedTokens: number; readonly completeMs: number }>()

  /** The LLM begins to write a sketch. @returns to be called when it is submitted or given up */
  begin(id: string, expectedTokens: number, { sketchS }: Pick<SketchPlan, 'sketchS'>, nowMs: number): () => void {
    this.#sketches.set(id, { expectedTokens, completeMs: nowMs + sketchS * 1_000 })
    return () => void this.#sketches.delete(id)
  }

  waiting(nowMs: number): WaitingExpansion[] {
    return [...this.#sketches].map(([id, { expectedTokens, completeMs }]) => ({
      id,
      expectedTokens,
      waitedS: 0,
      arrivesInS: Math.max(0, completeMs - nowMs) / 1_000,
    }))
  }
}
