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

/** Sentences that count now. */
export const weightOf = ({ sentences, judgedMs }: Ability, nowMs: number) =>
  sentences * 2 ** (-Math.max(0, nowMs - judgedMs) / halfLifeMs)

/** Sentences of the fleet that count beside a device's own. */
const fleetSentences = 4
/** A confidence below this is no expansion of its line: "Nothing at all." has 0.025, a sentence of another subject about 0.3. */
export const rubbishConfidence = 0.15

/** Of a model on one device: its own sentences, shrunk towards the fleet's mean. @param own undefined: it has written none */
export function shrunk(own: Ability | undefined, fleetMean: number | undefined, nowMs: number): number | undefined {
  if (!own || abilityOf(own, nowMs) === undefined) return fleetMean
  if (fleetMean === undefined) return own.confidence
  const weight = weightOf(own, nowMs)
  return (weight * own.confidence + fleetSentences * fleetMean) / (weight + fleetSentences)
}

/** A model whose relevance is known by fewer sentences is checked more often. */
export const knownWeight = 4

/**
 * What a model has shown by itself, and by what the LLM says of a sample of its sentences: those that have nothing to do with their
 * question are worth nothing.
 * @param relevance its confidences are relevances (`relevanceOf`)
 */
export function withRelevance(shown: Ability, relevance: Ability | undefined, nowMs: number): Ability {
  if (!relevance) return shown
  const weight = weightOf(relevance, nowMs)
  // Until something speaks against it, a model writes on the question.
  return { ...shown, confidence: (shown.confidence * (weight * relevance.confidence + 1)) / (weight + 1) }
}

/** Whether a model has shown on a device that it writes rubbish. It is tried again once what it has shown no longer counts. */
export const writesRubbish = (own: Ability | undefined, nowMs: number): boolean =>
  own !== undefined && weightOf(own, nowMs) >= 1 && own.sentences >= fleetSentences && own.confidence < 2 * rubbishConfidence

/** Mean of what counts, weighted; undefined: nothing does. */
export function meanAbility(abilities: readonly Ability[], nowMs: number): number | undefined {
  const counting = abilities.filter((ability) => abilityOf(ability, nowMs) !== undefined)
  const weight = counting.reduce((sum, each) => sum + weightOf(each, nowMs), 0)
  if (counting.some((each) => weightOf(each, nowMs) === Number.POSITIVE_INFINITY)) return counting[0]!.confidence
  return weight > 0 ? counting.reduce((sum, each) => sum + weightOf(each, nowMs) * each.confidence, 0) / weight : undefined
}
