import type { ServingPlan, ServingState, StreamState } from './policy.ts'

export interface PackLimits {
  /** Rows of prompts in this step, all together. */
  readonly promptRows: number
  /** A piece of a prompt has at least this many rows, unless fewer wait: fewer are not worth a place in a step. */
  readonly minPromptRows: number
}

/**
 * Fills a step in the order given, until rows or places run out. Prompts are cut into pieces; the rows of a draft are
 * all in one step.
 * @param ranked resident streams with waiting rows
 */
export function packStep(ranked: Iterable<StreamState>, step: ServingState['step'], limits: PackLimits): ServingPlan['run'] {
  let freeRows = step.rows
  let freePromptRows = Math.min(limits.promptRows, step.rows)
  const run: { stream: number; rows: number }[] = []
  for (const { id, waitingRows, phase } of ranked) {
    if (run.length === step.streams || freeRows === 0) break
    const isPrompt = phase === 'prefill'
    const rows = Math.min(waitingRows, freeRows, isPrompt ? freePromptRows : freeRows)
    const minRows = isPrompt ? Math.min(limits.minPromptRows, limits.promptRows) : waitingRows
    if (rows < Math.min(waitingRows, minRows, step.rows)) continue
    run.push({ stream: id, rows })
    freeRows -= rows
    if (isPrompt) freePromptRows -= rows
  }
  return run
}
