/** What waits for a step, oldest first. */
export interface Waiting {
  /** Whose KV it extends: at most one item per sequence goes into a step, the oldest. */
  readonly sequence: object
  /** Rows that are still to be computed, >= 1. */
  readonly tokens: number
  /** Of a prompt: others' next tokens go before it. */
  readonly prompt: boolean
  /** Steps that have left without it. */
  readonly passedOver: number
}

export interface PackLimits {
  /** Tokens of one step. */
  readonly tokenBudget: number
  /** Of them those of prompts, while others decode: so long nobody's next token waits for another's prompt. */
  readonly promptTokens: number
  readonly slots: number
  /** More tokens count as a prompt whatever they are; a prompt's piece is no smaller where more of it waits. */
  readonly smallTokens: number
  /** An item left behind by so many steps goes before all others. */
  readonly patience: number
}

/** An item's place in a step. */
export interface Taken {
  /** Into `waiting`. */
  readonly index: number
  /** Its next rows, >= 1; fewer than wait where a prompt is too long for one step. */
  readonly tokens: number
}

/**
 * Which of the waiting items make the next step: decode and verify before prompts, each oldest first, while tokens and
 * slots last; prompts fill what is left, in pieces where they are long, so that nobody's next token waits for another's
 * prompt. Whoever has waited for `patience` steps comes first, so that prompts move however many decode.
 * @param decoding others decode, though none of their rows may wait just now
 * @returns in the order of `waiting`; empty only where nothing waits
 */
export function packStep(waiting: readonly Waiting[], limits: PackLimits, decoding: boolean): Taken[] {
  const seen = new Set<object>()
  const ready = waiting.flatMap((item, index) => {
    if (seen.has(item.sequence)) return []
    seen.add(item.sequence)
    return [{ index, tokens: item.tokens, isPrompt: isPrompt(item, limits), rank: rankOf(item, limits) }]
  })
  // Stable: within a rank the oldest stays first.
  ready.sort((a, b) => a.rank - b.rank)
  const shared = decoding || ready.some((item) => !item.isPrompt)
  let room = limits.tokenBudget
  let promptRoom = shared ? Math.min(limits.promptTokens, room) : room
  const taken: Taken[] = []
  for (const { index, tokens, isPrompt: ofPrompt } of ready) {
    if (taken.length === limits.slots) break
    const fitting = Math.min(tokens, room, ofPrompt ? promptRoom : room)
    // A decode goes whole or not at all; a sliver of a prompt is not worth its slot.
    const whole = ofPrompt ? Math.min(limits.smallTokens, limits.promptTokens) : tokens
    if (fitting < Math.min(tokens, whole, limits.tokenBudget)) continue
    taken.push({ index, tokens: fitting })
    room -= fitting
    if (ofPrompt) promptRoom -= fitting
  }
  return taken.sort((a, b) => a.index - b.index)
}

function rankOf(item: Waiting, limits: PackLimits): number {
  if (item.passedOver >= limits.patience) return 0
  return isPrompt(item, limits) ? 2 : 1
}

const isPrompt = ({ prompt, tokens }: Waiting, { smallTokens }: PackLimits) => prompt || tokens > smallTokens
