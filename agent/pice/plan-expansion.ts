import type { CandidateSource } from '../../core/policy/pice/choose-candidates.ts'
import {
  groupSentences,
  type SketchShape,
  sentenceTokens,
  chooseSources as sourcesFor,
} from '../../core/policy/pice/expansion-groups.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import { type SentencePlace, sentencesOf } from '../../core/protocol/expansion.ts'
import type { ExpandInput, SketchInput } from '../../core/protocol/jobs.ts'
import type { GroupWork, SketchWork } from './expansion-work.ts'

/** Temperature of further samples, where the job asks for greedy expansions. */
const sampleTemperature = 0.7
/** An expansion may be this many times as long as expected, and so many tokens longer: it stops loops only. */
const maxLengthRatio = 3
const lengthMargin = 16

/** What decides about models and groups, as it is when the job begins. */
export interface ExpansionTerms {
  readonly models: readonly SmallModelSpeed[]
  readonly current: string | undefined
  /** Whether no other job waits on this device. */
  readonly isQueueEmpty: boolean
  /** Sequences that are decoded together. */
  readonly maxSequences: number
  /** Of the sketches' budgets: what the job has waited and run. */
  readonly spentS: number
}

/** The source of each candidate, for all sketches of the job (PICE, Algorithm 2). */
export const chooseSources = ({ sketches }: ExpandInput, terms: ExpansionTerms): readonly CandidateSource[] =>
  sourcesFor(
    sketches.map((sketch) => shapeOf(sketch, terms)),
    terms,
  )

/** What one model expands: those of its candidates that are missing, in groups. Sketches without any are left out. */
export function workOf(
  { sketches }: ExpandInput,
  sources: readonly CandidateSource[],
  speed: SmallModelSpeed,
  terms: ExpansionTerms,
  isMissing: (at: SentencePlace) => boolean,
  nextSeed: () => number,
): readonly SketchWork[] {
  return sketches.flatMap((asked, sketch) => {
    const shape = shapeOf(asked, terms)
    const seed = (asked.seed ?? nextSeed()) % 2 ** 32
    const groups = sources.slice(0, asked.candidates).flatMap(({ model, sample }, candidate): GroupWork[] => {
      if (model !== speed.model) return []
      const missing = shape.sentences.filter((sentence) => isMissing({ sketch, sentence, candidate }))
      return groupSentences(shape, missing, speed, terms.maxSequences).map((sentences) => {
        const { temperature, topP, topK } = asked
        return {
          candidate,
          sentences,
          sampling: {
            temperature: sample > 0 && temperature === 0 ? sampleTemperature : temperature,
            topP,
            topK,
            // Other noise for each sequence.
            seed: seed + sentences[0]! + sample * asked.sketch.length,
          },
        }
      })
    })
    if (groups.length === 0) return []
    const byFirst = groups.toSorted((a, b) => a.sentences[0]! - b.sentences[0]! || a.candidate - b.candidate)
    const query = asked.messages ?? [{ role: 'user', content: asked.prompt ?? '' }]
    const lengths = sentenceTokens(shape).map((tokens) => ({
      min: Math.ceil(tokens) + lengthMargin,
      max: Math.ceil(tokens * maxLengthRatio) + lengthMargin,
    }))
    return [{ sketch, query, lines: asked.sketch, groups: byFirst, lengths }]
  })
}

function shapeOf(asked: SketchInput, { spentS }: ExpansionTerms): SketchShape {
  const { sketch, expectedTokens, candidates, budgetMs = Number.POSITIVE_INFINITY } = asked
  return {
    words: sketch.map((line) => line.trim().split(/\s+/).length),
    expectedTokens,
    sentences: sentencesOf(asked),
    candidates,
    budgetS: budgetMs / 1_000 - spentS,
  }
}
