import { z } from 'zod'
import { listOf } from '../base/list-of.ts'

const count = z.int().min(0)

/**
 * Fields of `pice.expand` beside the prompt: a sketch of the answer, by sentences, which a device's small models expand.
 * PICE, Algorithms 1 and 2, execution optimiser, Eq. 3.
 */
export const sketchFields = {
  /** Sentences by the LLM, in order. */
  sketch: listOf(z.string().trim().min(1).max(4_096), { min: 1, max: 256 }),
  /** Index of the first sentence to expand; those before it are expanded already. */
  from: count.default(0),
  /** l: predicted length of the whole answer, in tokens. */
  expectedTokens: z.int().min(1).max(1_000_000),
  /** f(l) − f(|r|): time within which the expansion beats the LLM alone. Decides the small model and the groups of sentences. */
  budgetMs: z.number().positive().optional(),
  /** Number of answers that the ensemble chooses from: of several models, or samples of one. */
  candidates: z.int().min(1).max(8).default(1),
}

/** Indices of the sentences to expand. */
export const sentencesOf = ({ sketch, from }: { sketch: readonly unknown[]; from: number }): number[] =>
  sketch.map((_, sentence) => sentence).slice(from)

/** Result of `pice.expand`. The bridge chooses the answer among the candidates (Eq. 3). */
export const Expansion = z.object({
  candidates: z
    .array(
      z.object({
        model: z.string().min(1),
        /** Each sentence once, in the order of the sketch. */
        sentences: z.array(z.object({ sentence: count, text: z.string(), tokens: count })),
        /** (1/N) Σ log2 p(w_i) over its tokens; 2 to this power is the first term of Eq. 3. */
        meanLog2Probability: z.number().max(0),
      }),
    )
    .min(1)
    .max(8),
  /** Sentences that were expanded in one sequence. */
  groups: z.array(z.array(count).min(1)),
  tookMs: z.number().min(0),
})
export type Expansion = z.infer<typeof Expansion>

/** Why the expansion does not fit the sketch; undefined: it does. */
export function expansionProblem(
  { sketch, from }: { sketch: readonly unknown[]; from: number },
  { candidates, groups }: Expansion,
): string | undefined {
  const wanted = sentencesOf({ sketch, from }).join()
  for (const [at, { sentences }] of candidates.entries())
    if (sentences.map(({ sentence }) => sentence).join() !== wanted)
      return `candidate ${at} must contain each requested sentence once, in the order of the sketch`
  const grouped = groups.flat().sort((a, b) => a - b)
  return grouped.join() === wanted ? undefined : 'its groups must contain each requested sentence once'
}
