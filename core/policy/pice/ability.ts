/** What the confidence of its expansions (PICE Eq. 3) has shown of a small model. */
export interface Ability {
  /** Mean, 0..1. */
  readonly confidence: number
  /** Sentences that count: older ones count less. */
  readonly sentences: number
  /** Time of the last one. */
  readonly judgedMs: number
}

/** More sentences add no weight: a model may be replaced by another version of its name. */
const maxSentences = 50
/** Time in which what was shown loses half its weight. */
const halfLifeMs = 10 * 60_000

/** @param before undefined before the first sentence. @param confidence of one more sentence, 0..1 */
export function judged(before: Ability | undefined, confidence: number, nowMs: number): Ability {
  const sentences = Math.min(maxSentences, (before ? weightOf(before, nowMs) : 0) + 1)
  const mean = before?.confidence ?? confidence
  return { confidence: mean + (confidence - mean) / sentences, sentences, judgedMs: nowMs }
}

/**
 * The ability of a model, as plans count it. Undefined once what was shown weighs less than one sentence: half an hour after a single
 * answer of eight, an hour after many. So a model that no plan takes for its low ability is tried again: the model, the prompts or the
 * questions may have changed.
 */
export function abilityOf(ability: Ability | undefined, nowMs: number): number | undefined {
  return ability && weightOf(ability, nowMs) >= 1 ? ability.confidence : undefined
}

/** Until when `abilityOf` gives a value. */
export const knownUntilMs = ({ sentences, judgedMs }: Ability): number => judgedMs + halfLifeMs * Math.log2(sentences)

const weightOf = ({ sentences, judgedMs }: Ability, nowMs: number) =>
  sentences * 2 ** (-Math.max(0, nowMs - judgedMs) / halfLifeMs)
