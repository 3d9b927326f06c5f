import { type CandidateSource, chooseCandidates } from './choose-candidates.ts'
import { chooseModel } from './choose-model.ts'
import { mergeSentences } from './merge-sentences.ts'
import { packedS } from './speeds.ts'
import type { SmallModelSpeed } from './state.ts'

/**
 * Groups are merged beyond what bounds their number only where that saves a tenth of the time: the prefix that more groups would
 * repeat is computed once anyway, and the first sentences of fewer groups arrive later.
 */
const maxSlowdown = 0.9

/** A sketch that a device is to expand, as far as models and groups depend on it. */
export interface SketchShape {
  /** Words of each line. */
  readonly words: readonly number[]
  /** l: of the whole answer, in tokens of the LLM. */
  readonly expectedTokens: number
  /** Indices of the lines to expand. */
  readonly sentences: readonly number[]
  readonly candidates: number
  /** Time left for it; Infinity: unlimited. */
  readonly budgetS: number
}

/** What decides about models and groups, as it is when the job begins. */
export interface ExpandingTerms {
  readonly models: readonly SmallModelSpeed[]
  readonly current: string | undefined
  /** Whether no other job waits on this device. */
  readonly isQueueEmpty: boolean
  /** Sequences that are decoded together. */
  readonly maxSequences: number
}

/** The source of each candidate, for all sketches of the job: they are of like lengths and share the open model (PICE, Algorithm 2). */
export function chooseSources(sketches: readonly SketchShape[], terms: ExpandingTerms): readonly CandidateSource[] {
  const lines = sketches.reduce((sum, { sentences }) => sum + sentences.length, 0)
  const expanding = {
    expectedTokens: sketches.reduce((sum, sketch) => {
      const expected = sentenceTokens(sketch)
      return sum + sketch.sentences.reduce((own, at) => own + expected[at]!, 0)
    }, 0),
    sequences: Math.min(lines, terms.maxSequences),
    budgetS: Math.min(...sketches.map(({ budgetS }) => budgetS)),
    mayUpgrade: terms.isQueueEmpty,
  }
  const count = Math.max(...sketches.map(({ candidates }) => candidates))
  return chooseCandidates(terms, chooseModel(terms, expanding), count, expanding)
}

/** Groups of a sketch's sentences, each expanded in one sequence. @param missing indices of the lines to group */
export function groupSentences(
  sketch: Pick<SketchShape, 'words' | 'expectedTokens' | 'budgetS'>,
  missing: readonly number[],
  speed: SmallModelSpeed,
  maxSequences: number,
): readonly (readonly number[])[] {
  const expected = sentenceTokens(sketch)
  const groups = mergeSentences(
    missing.map((at) => sketch.words[at]!),
    {
      maxGroups: maxSequences,
      budgetS: sketch.budgetS,
      maxSlowdown,
      secondsOf: (groups) =>
        packedS(
          speed,
          groups.map((group) => sum(group.map((at) => expected[missing[at]!]!))),
        ),
    },
  )
  return groups.map((group) => group.map((at) => missing[at]!))
}

/** Expected tokens of each line's expansion, by its share of the sketch's words. */
export function sentenceTokens({ words, expectedTokens }: Pick<SketchShape, 'words' | 'expectedTokens'>): readonly number[] {
  const all = sum(words)
  return words.map((own) => (expectedTokens * own) / all)
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
