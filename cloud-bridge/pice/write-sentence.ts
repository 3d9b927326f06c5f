import { keyWordsOf, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { expandInstruction } from '../../core/answer/sketch/prompts.ts'
import type { Asked, Llm } from './llm.ts'
import { maxReplyTokens } from './reply-length.ts'
import { writtenLine } from './written-line.ts'

export interface WrittenLine {
  readonly text: string
  /** Generated for it. */
  readonly tokens: number
}

/**
 * The LLM writes a line of its sketch out. Where the limit of its length cuts that, it writes it again, with more room.
 * @param tokens expected length. @throws BrimError of the LLM
 */
export async function writeSentence(
  llm: Llm,
  asked: Asked,
  { lines, at, tokens }: { readonly lines: readonly SketchLine[]; readonly at: number; readonly tokens: number },
  signal: AbortSignal,
): Promise<WrittenLine> {
  const line = lines[at]!
  const sketch = lines.map(keyWordsOf)
  const instruction = expandInstruction(llm.prompts, sketch, { line: sketch[at]!, at, count: lines.length, tokens })
  let generated = 0
  for (const maxTokens of [maxReplyTokens(tokens), 2 * maxReplyTokens(tokens)]) {
    let reply = ''
    let isCut = false
    for await (const delta of llm.reply(asked, instruction, { maxTokens }, signal)) {
      reply += delta.text
      generated += delta.tokenCount
      isCut = delta.end === 'length'
    }
    const text = writtenLine(line, reply, isCut)
    if (text !== '' || !isCut) return { text, tokens: generated }
  }
  // It has written in a loop twice: the line of its sketch is the best text that there is.
  return { text: line.text, tokens: generated }
}
