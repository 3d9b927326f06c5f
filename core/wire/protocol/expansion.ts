import { z } from 'zod'
import { listOf } from '../../kit/base/list-of.ts'

const count = z.int().min(0)

/** Maximum number of sentences of a sketch, of sketches in a job, and of expanded answers that the ensemble chooses from. */
export const maxSketchLines = 256
export const maxSketchesPerJob = 64
export const maxCandidates = 8

const maxSentenceChars = 65_536

/** Fields of one sketch of `pice.expand` beside its prompt. PICE, Algorithms 1 and 2, execution optimiser. */
export const sketchFields = {
  /** The sketch by the LLM: one line for each sentence of the answer, in order. */
  sketch: listOf(z.string().trim().min(1).max(4_096), { min: 1, max: maxSketchLines }),
  /** Indices of the lines to expand, ascending; absent: all. Others are expanded already. */
  sentences: listOf(count, { min: 1, max: maxSketchLines }).optional(),
  /** l: predicted length of the whole answer, in tokens of the LLM. */
  expectedTokens: z.int().min(1).max(1_000_000),
  /** f(l) − f(|r|): time within which the expansion beats the LLM alone. Decides the small model and the groups of sentences. */
  budgetMs: z.number().positive().optional(),
  /** Number of expansions of each sentence that the ensemble chooses from: of several models, or samples of one. */
  candidates: z.int().min(1).max(maxCandidates).default(1),
}

interface Sketched {
  readonly sketch: readonly unknown[]
  readonly sentences?: readonly number[] | undefined
}

/** Indices of the sentences to expand. */
export const sentencesOf = ({ sketch, sentences }: Sketched): readonly number[] => sentences ?? sketch.map((_, at) => at)

/** Why the indices of the sentences are invalid; undefined: they are not. */
export function sentencesProblem({ sketch, sentences = [] }: Sketched): string | undefined {
  if (sentences.some((at) => at >= sketch.length)) return 'an index is beyond the sketch'
  return sentences.some((at, place) => place > 0 && at <= sentences[place - 1]!) ? 'indices must ascend' : undefined
}

/** One candidate for one sentence of an answer. */
export const expandedSentence = {
  /** Index of the sketch in the job. */
  sketch: count,
  /** Index of the sentence in its sketch. */
  sentence: count,
  candidate: z
    .int()
    .min(0)
    .max(maxCandidates - 1),
  /** Name of the small model that wrote it. */
  model: z.string().min(1).max(256),
  text: z.string().max(maxSentenceChars),
  /** That the small model generated for it, of its own vocabulary. */
  tokens: count.max(maxSentenceChars),
  /** (1/N) Σ log2 p(w_i) over its tokens; 2 to this power is the first term of Eq. 3. Null: its server gives no probabilities. */
  meanLog2Probability: z.number().max(0).nullable(),
  /** Why its text ends: `length` where the limit of its length or the model's context cut it. Absent: an older agent, which does not say. */
  end: z.enum(['stop', 'length']).optional(),
}
export const ExpandedSentence = z.object(expandedSentence)
export type ExpandedSentence = z.infer<typeof ExpandedSentence>

/** Result of `pice.expand`. The bridge chooses among the candidates (Eq. 3). */
export const Expansion = z.object({
  /** Each candidate of each requested sentence once, in any order. */
  sentences: z.array(ExpandedSentence).min(1),
  /**
   * What the device measured, by which the bridge corrects its profile: one entry for each model that has expanded sentences in
   * this attempt. All sketches of a job are decoded together, so that times belong to the whole batch.
   */
  runs: z
    .array(
      z.object({
        model: z.string().min(1).max(256),
        /** Sequences, each of which expanded one or more sentences; and how many of them a step decoded, on average. */
        groups: z.int().min(1),
        parallel: z.number().min(1),
        /** Positions of all prompts, and those that were computed: the others are copies of a prefix that groups share. */
        promptTokens: count,
        prefilledTokens: count,
        tokens: count,
        /** Time to open the model, 0 where it was open; time of prefill and decoding. */
        loadMs: z.number().min(0),
        tookMs: z.number().min(0),
      }),
    )
    .max(maxCandidates),
})
export type Expansion = z.infer<typeof Expansion>

/** Where a candidate belongs: indices of its sketch in the job, of its sentence in the sketch, and its own. */
export type SentencePlace = Pick<ExpandedSentence, 'sketch' | 'sentence' | 'candidate'>
export const sentenceKey = ({ sketch, sentence, candidate }: SentencePlace): string => `${sketch}/${sentence}/${candidate}`

/** Each candidate of each sentence that a job requests. */
export const requestedSentences = (sketches: readonly (Sketched & { readonly candidates: number })[]): SentencePlace[] =>
  sketches.flatMap((asked, sketch) =>
    sentencesOf(asked).flatMap((sentence) =>
      Array.from({ length: asked.candidates }, (_, candidate) => ({ sketch, sentence, candidate })),
    ),
  )

export const notRequested = ({ sketch, sentence, candidate }: SentencePlace): string =>
  `sentence ${sentence} of sketch ${sketch}, candidate ${candidate}, was not requested or is there twice`

/** Why the expansion does not fit the sketches; undefined: it does. */
export function expansionProblem(
  sketches: readonly (Sketched & { readonly candidates: number })[],
  { sentences }: Expansion,
): string | undefined {
  const missing = new Set(requestedSentences(sketches).map(sentenceKey))
  for (const place of sentences) if (!missing.delete(sentenceKey(place))) return notRequested(place)
  const [first] = missing
  return first === undefined
    ? undefined
    : `${missing.size} requested sentences are missing, such as ${first} (sketch/sentence/candidate)`
}
