/** What waits for a step, oldest first. */
export interface Waiting {
  /** Whose KV it extends: at most one item per sequence goes into a step, the oldest. */
  readonly sequence: object
  /** New rows, >= 1. */
  readonly tokens: number
  /** Steps that have left without it. */
  readonly passedOver: number
}

export interface PackLimits {
  /** Tokens of one step; an item that is larger still goes alone. */
  readonly tokenBudget: number
  readonly slots: number
  /** Up to so many tokens an item counts as decode or verify: it goes before prompts. */
  readonly smallTokens: number
  /** An item left behind by so many steps goes before all others. */
  readonly patience: number
}

/**
 * Which of the waiting items make the next step: decode and verify before prompts, each oldest first, while tokens and
 * slots last, so that nobody's next token waits for another's long prompt; whoever has waited for `patience` steps
 * comes first, so that prompts move however many decode.
 * @returns indices into `waiting`, ascending; empty only where nothing waits
 */
export function packStep(waiting: readonly Waiting[], limits: PackLimits): number[] {
  const seen = new Set<object>()
  const ready = waiting.flatMap((item, index) => {
    if (seen.has(item.sequence)) return []
    seen.add(item.sequence)
    return [{ index, tokens: item.tokens, rank: rankOf(item, limits) }]
  })
  // Stable: within a rank the oldest stays first.
  ready.sort((a, b) => a.rank - b.rank)
  const taken: number[] = []
  let tokens = 0
  for (const item of ready) {
    if (taken.length === limits.slots) break
    if (taken.length > 0 && tokens + item.tokens > limits.tokenBudget) continue
    taken.push(item.index)
    tokens += item.tokens
  }
  return taken.sort((a, b) => a - b)
}

function rankOf(item: Waiting, limits: PackLimits): number {
  if (item.passedOver >= limits.patience) return 0
  return item.tokens <= limits.smallTokens ? 1 : 2
}
