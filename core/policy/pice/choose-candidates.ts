import { type Expanding, switchS } from './choose-model.ts'
import { expansionS } from './speeds.ts'
import type { ExpandingDevice, SmallModelSpeed } from './state.ts'

/** Where a candidate of the ensemble comes from. */
export interface CandidateSource {
  readonly model: string
  /** 0: the model's own expansion; others: further samples of it. */
  readonly sample: number
}

/**
 * The candidates that Eq. 3 chooses from: the expansion of the chosen model, then of the other models, the ablest first, while all
 * of them in turn keep the budget; the rest are samples of the chosen model, which cost no switch and share its prompts.
 * @param count number of candidates, ≥ 1
 */
export function chooseCandidates(
  { models, current }: Pick<ExpandingDevice, 'models' | 'current'>,
  chosen: SmallModelSpeed,
  count: number,
  { expectedTokens, sequences, budgetS }: Expanding,
): readonly CandidateSource[] {
  const secondsOf = (model: SmallModelSpeed) => switchS(model, current) + expansionS(model, expectedTokens, sequences)
  const sources: CandidateSource[] = [{ model: chosen.model, sample: 0 }]
  let takenS = secondsOf(chosen)
  for (const model of models.toReversed()) {
    if (sources.length >= count || model === chosen) continue
    const addedS = secondsOf(model)
    if (takenS + addedS > budgetS) continue
    takenS += addedS
    sources.push({ model: model.model, sample: 0 })
  }
  while (sources.length < count) sources.push({ model: chosen.model, sample: sources.length })
  return sources
}
