import type { TokenCosts } from './state.ts'

/** What the work of a token depends on. */
export interface ModelShape {
  readonly layers: number
  readonly hidden: number
  readonly ffn: number
  readonly vocab: number
}

/**
 * FLOPs of one token after `context` others, a multiplication and its addition counted as one (DiSCo Eq. 9, 11): attention, FFN,
 * norms, embedding and output. **Reading**: Eq. 11 prints L·d/heads + L·d for attention to the context; Table 6 and 7 need
 * 2·L·d, one L·d for scores and one for values.
 */
export function flopsPerToken({ layers, hidden, ffn, vocab }: ModelShape, context: number): number {
  const attention = 4 * hidden ** 2 + 2 * context * hidden
  return layers * (attention + 2 * hidden * ffn + 8 * hidden) + 2 * vocab * hidden
}

/**
 * FLOPs per token of prompt and answer, where the model's energy has not been measured. **Reading**: Eq. 10 adds the attention
 * of the whole prompt, L²·d, to each of its tokens; a token attends to those before it, L/2 on average.
 */
export const flopsOf = (shape: ModelShape, work: { readonly promptTokens: number; readonly tokens: number }): TokenCosts => ({
  prompt: flopsPerToken(shape, work.promptTokens / 2),
  output: flopsPerToken(shape, work.promptTokens + work.tokens / 2),
})
