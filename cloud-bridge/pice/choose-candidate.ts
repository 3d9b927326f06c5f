import { keyWordsOf, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { rubbishConfidence } from '../../core/policy/pice/ability.ts'
import { mostConfident } from '../../core/policy/pice/confidence.ts'
import { coverage, leastCoverage } from '../../core/policy/pice/coverage.ts'
import type { Expanded } from './expander.ts'
import { writtenLine } from './written-line.ts'

/**
 * The most confident of the candidates for a line, with its text as the answer has it.
 * @param expectedTokens of the line's text
 * @param judge is told how good each of them is
 * @returns undefined: none has a text that says anything of the line
 */
export function chooseCandidate(
  line: SketchLine,
  arrived: readonly Expanded[],
  expectedTokens: number,
  judge: (from: Pick<Expanded, 'device' | 'model'>, confidence: number) => void,
): (Expanded & { readonly confidence: number }) | undefined {
  const candidates = arrived.map((each) => ({ ...each, text: writtenLine(line, each.text, each.end === 'length') }))
  const withText = candidates.filter(({ text }) => text !== '')
  // An empty text tells of its model, too.
  for (const each of candidates) if (each.text === '') judge(each, 0)
  if (withText.length === 0) return undefined
  // The line is compared with all that the answer has of it, its title included.
  const titled = withText.map((each) => ({ ...each, text: line.lead + each.text }))
  const keyWords = keyWordsOf(line)
  const { confidences } = mostConfident(titled, keyWords, expectedTokens)
  const judged = withText.map((each, at) => ({ ...each, confidence: confidences[at]! }))
  for (const each of judged) judge(each, each.confidence)
  // What says nothing of its line, or something else, is no text of it: the LLM writes the line.
  const usable = judged.filter(
    ({ confidence }, at) => confidence >= rubbishConfidence && coverage(keyWords, titled[at]!.text) >= leastCoverage,
  )
  const highest = Math.max(...usable.map(({ confidence }) => confidence))
  return usable.find(({ confidence }) => confidence === highest)
}
