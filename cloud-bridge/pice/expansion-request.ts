import { keyWordsOf, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { expansionTime } from '../../core/policy/pice/expansion-deadline.ts'
import type { CloudSpeed } from '../../core/policy/pice/state.ts'
import type { SketchRecord } from './answer-log.ts'
import { sketchMessages } from './conversation.ts'
import type { ExpansionRequest } from './expander.ts'
import type { Asked } from './llm.ts'

export interface RequestTerms {
  /** Of each sentence. */
  readonly candidates: number
  /** Since the answer was asked for. */
  readonly elapsedMs: number
  readonly maxExpansionMs: number
  /** Of the LLM; undefined: not measured. */
  readonly speed: CloudSpeed | undefined
}

/** What devices get of an answer. @param id of the expansion. @param lines of the sketch, as far as it is written */
export function expansionRequest(
  { request, messages }: Asked,
  { expectedTokens, withinS, expansionS, figures }: SketchRecord,
  { id, lines, sentences }: { readonly id: string; readonly lines: readonly SketchLine[]; readonly sentences: readonly number[] },
  { candidates, elapsedMs, maxExpansionMs, speed }: RequestTerms,
): ExpansionRequest {
  const { temperature, topP, topK, seed } = request.sampling
  const completion = { speed, sentences: sentences.length, tokens: (expectedTokens * sentences.length) / lines.length }
  const { budgetMs, deadlineMs } = expansionTime({ ...figures, withinS, expansionS }, elapsedMs, maxExpansionMs, completion)
  return {
    id,
    client: request.client,
    input: {
      messages: sketchMessages(messages, Number.POSITIVE_INFINITY),
      sketch: lines.map(keyWordsOf),
      sentences: [...sentences],
      expectedTokens,
      budgetMs,
      candidates,
      temperature,
      topP,
      topK,
      seed,
    },
    deadlineMs,
  }
}
