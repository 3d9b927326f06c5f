import { z } from 'zod'

const count = z.int().min(0)

/**
 * `pice.expand`, what is asked beside the question: a sketch of the answer, by sentences, to be written out by a device's
 * small models. papers: PICE (Algorithms 1 and 2, execution optimiser, Eq. 3).
 */
export const sketchFields = {
  /** The LLM's sentences, in order. */
  sketch: z.array(z.string().trim().min(1).max(4_096)).min(1).max(256),
  /** Sentences before it are written out already. */
  from: count.default(0),
  /** l: tokens that the whole answer was foreseen to have. */
  expectedTokens: z.int().min(1).max(1_000_000),
  /** f(l) − f(|r|): what it may take, or the LLM alone would have been sooner. Decides the small model and how sentences are grouped. */
  budgetMs: z.number().positive().optional(),
  /** How many answers the ensemble chooses from: of several models, or samples of one. */
  candidates: z.int().min(1).max(8).default(1),
}

/** The sentences that are to be written out. */
export const sentencesOf = ({ sketch, from }: { sketch: readonly unknown[]; from: number }): number[] =>
  sketch.map((_, sentence) => sentence).slice(from)

/** Result of `pice.expand`. Which candidate is the answer, the bridge decides (Eq. 3). */
export const Expansion = z.object({
  candidates: z
    .array(
      z.object({
        model: z.string().min(1),
        /** By their place in the sketch, in its order, each once. */
        sentences: z.array(z.object({ sentence: count, text: z.string(), tokens: count })),
        /** (1/N) Σ log2 p(w_i) over its tokens: 2 to the power of it is the first term of Eq. 3. */
        meanLog2Probability: z.number().max(0),
      }),
    )
    .min(1)
    .max(8),
  /** Sentences that were written out in one sequence, after merging. */
  groups: z.array(z.array(count).min(1)),
  tookMs: z.number().min(0),
})
export type Expansion = z.infer<typeof Expansion>

/** What keeps it from being an expansion of that sketch; undefined: nothing does. */
export function expansionProblem(
  { sketch, from }: { sketch: readonly unknown[]; from: number },
  { candidates, groups }: Expansion,
): string | undefined {
  const wanted = sentencesOf({ sketch, from }).join()
  for (const [at, { sentences }] of candidates.entries())
    if (sentences.map(({ sentence }) => sentence).join() !== wanted)
      return `candidate ${at} does not hold each sentence that was asked for once, in the order of the sketch`
  const grouped = groups.flat().sort((a, b) => a - b)
  return grouped.join() === wanted ? undefined : 'its groups do not hold each sentence that was asked for once'
}
