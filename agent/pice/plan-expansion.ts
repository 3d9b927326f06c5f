import { type CandidateSource, chooseCandidates } from '../../core/policy/pice/choose-candidates.ts'
import { chooseModel } from '../../core/policy/pice/choose-model.ts'
import { mergeSentences } from '../../core/policy/pice/merge-sentences.ts'
import { packedS } from '../../core/policy/pice/speeds.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import { type SentencePlace, sentencesOf } from '../../core/protocol/expansion.ts'
import type { ExpandInput, SketchInput } from '../../core/protocol/jobs.ts'
import type { GroupWork, SketchWork } from './expansion-work.ts'

/** Temperature of further samples, where the job asks for greedy expansions. */
const sampleTemperature = 0.7
/** An expansion may be this many times as long as expected, and so many tokens longer: it stops loops only. */
const maxLengthRatio = 3
const lengthMargin = 16

/**
 * Groups are merged beyond what bounds their number only where that saves a tenth of the time: the prefix that more groups would
 * repeat is computed once anyway, and the first sentences of fewer groups arrive later.
 */
const maxSlowdown = 0.9

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

/** Time left for a sketch. */
const budgetS = ({ budgetMs = Number.POSITIVE_INFINITY }: SketchInput, { spentS }: ExpansionTerms) => budgetMs / 1_000 - spentS

/** The source of each candidate, for all sketches of the job: they are of like lengths and share the open model (PICE, Algorithm 2). */
export function chooseSources({ sketches }: ExpandInput, terms: ExpansionTerms): readonly CandidateSource[] {
  const lines = sketches.reduce((sum, sketch) => sum + sentencesOf(sketch).length, 0)
  const expanding = {
    expectedTokens: sketches.reduce((sum, sketch) => {
      const expected = expectedTokens(sketch)
      return sum + sentencesOf(sketch).reduce((own, at) => own + expected[at]!, 0)
    }, 0),
    sequences: Math.min(lines, terms.maxSequences),
    budgetS: Math.min(...sketches.map((sketch) => budgetS(sketch, terms))),
    mayUpgrade: terms.isQueueEmpty,
  }
  const count = Math.max(...sketches.map(({ candidates }) => candidates))
  return chooseCandidates(terms, chooseModel(terms, expanding), count, expanding)
}

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
    const expected = expectedTokens(asked)
    const seed = (asked.seed ?? nextSeed()) % 2 ** 32
    const groups = sources.slice(0, asked.candidates).flatMap(({ model, sample }, candidate): GroupWork[] => {
      if (model !== speed.model) return []
      const missing = sentencesOf(asked).filter((sentence) => isMissing({ sketch, sentence, candidate }))
      const merged = mergeSentences(
        missing.map((at) => wordsOf(asked.sketch[at]!)),
        {
          maxGroups: terms.maxSequences,
          budgetS: budgetS(asked, terms),
          maxSlowdown,
          secondsOf: (groups) =>
            packedS(
              speed,
              groups.map((group) => sum(group.map((at) => expected[missing[at]!]!))),
            ),
        },
      )
      return merged.map((group) => {
        const sentences = group.map((at) => missing[at]!)
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
    const lengths = expected.map((tokens) => ({
      min: Math.ceil(tokens) + lengthMargin,
      max: Math.ceil(tokens * maxLengthRatio) + lengthMargin,
    }))
    return [{ sketch, query, lines: asked.sketch, groups: byFirst, lengths }]
  })
}

/** Of each line, by its share of the sketch's words. */
function expectedTokens({ sketch, expectedTokens: whole }: SketchInput): readonly number[] {
  const words = sketch.map(wordsOf)
  const all = sum(words)
  return words.map((own) => (whole * own) / all)
}

const wordsOf = (line: string) => line.trim().split(/\s+/).length
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
