import type { RequestedSketch, SketchGroups } from '../../core/policy/pice/device-expansion.ts'
import { sentenceTokens } from '../../core/policy/pice/expansion-groups.ts'
import { sentencesOf } from '../../core/wire/protocol/expansion.ts'
import type { ExpandInput, SketchInput } from '../../core/wire/protocol/jobs.ts'
import type { SketchWork } from './expansion-work.ts'

/** Whatever the client asks for: small models leave their line at higher temperatures. Further samples have it where the job is greedy. */
const maxTemperature = 0.3
/** An expansion may be this many times as long as expected, and so many tokens longer: it stops loops only. */
const maxLengthRatio = 3
const lengthMargin = 16

/** A sketch without its texts. */
export function requestedSketch(asked: SketchInput): RequestedSketch {
  const { sketch, expectedTokens, candidates, budgetMs = Number.POSITIVE_INFINITY } = asked
  const words = sketch.map((line) => line.trim().split(/\s+/).length)
  return { words, expectedTokens, sentences: sentencesOf(asked), candidates, budgetMs }
}

/** What a model is to write, with texts and sampling. */
export const expansionWork = (
  { sketches }: ExpandInput,
  planned: readonly SketchGroups[],
  nextSeed: () => number,
): readonly SketchWork[] =>
  planned.map(({ sketch, groups }) => {
    const asked = sketches[sketch]!
    const { temperature, topP, topK } = asked
    const seed = (asked.seed ?? nextSeed()) % 2 ** 32
    const lengths = sentenceTokens(requestedSketch(asked)).map((tokens) => ({
      min: Math.ceil(tokens) + lengthMargin,
      expected: tokens,
      max: Math.ceil(tokens * maxLengthRatio) + lengthMargin,
    }))
    return {
      sketch,
      query: asked.messages ?? [{ role: 'user', content: asked.prompt ?? '' }],
      lines: asked.sketch,
      lengths,
      groups: groups.map(({ candidate, sample, sentences }) => ({
        candidate,
        sentences,
        sampling: {
          temperature: sample > 0 && temperature === 0 ? maxTemperature : Math.min(temperature, maxTemperature),
          topP,
          topK,
          // Other noise for each sequence.
          seed: seed + sentences[0]! + sample * asked.sketch.length,
        },
      })),
    }
  })
