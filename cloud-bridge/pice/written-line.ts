import { cleanExpansion, withoutCutSentence } from '../../core/answer/sketch/clean-expansion.ts'
import { keyWordsOf, type SketchLine, unbold } from '../../core/answer/sketch/line-form.ts'

/** Of a text that was cut, its complete sentences must be at least this share; else it is missing. */
const minComplete = 0.5

/**
 * The text of a line from what a model wrote for it: without what is not of the line, and without a sentence that was cut.
 * '': it has to be written again.
 */
export function writtenLine(line: SketchLine, reply: string, isCut: boolean): string {
  const { text, reachesEnd } = cleanExpansion(reply, keyWordsOf(line), unbold(line.lead))
  if (!isCut || !reachesEnd) return text
  const complete = withoutCutSentence(text)
  return complete.length >= minComplete * text.length ? complete : ''
}
