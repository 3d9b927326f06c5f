import { sentencesIn } from './clean-expansion.ts'
import { fence, keyWordsOf, parseLine } from './line-form.ts'

/** The beginning of an answer that the LLM writes itself, before lines of its sketch that devices write out. */

/** Code and tables are never written out in parts, and what follows reasoning is not known. */
const isWhole = (line: string): boolean => fence.test(line) || /^\s*\||<think>|\[THINK\]/.test(line)

/** Whether the LLM may stop between a text and what it goes on with: a sentence or a line is complete. */
export function mayEndBefore(text: string, next: string): boolean {
  const before = text.trimEnd()
  const after = text.slice(before.length) + next
  const lines = before.split('\n')
  if (!/[\p{L}\p{N}]/u.test(before) || next.trim() === '' || lines.some(isWhole)) return false
  if (/^\s*\n/.test(after)) return true
  const line = lines.at(-1)!
  return sentencesIn(line + after).some(({ to }) => to === line.length)
}

/** Its lines, as those of a sketch are written. */
export function openingLines(text: string): string[] {
  const lines: string[] = []
  let isApart = false
  for (const line of text.split('\n')) {
    if (line.trim() !== '') lines.push(isApart && lines.length > 0 ? `\n${line}` : line)
    isApart = line.trim() === ''
  }
  return lines
}

/**
 * How many of the first lines of a sketch the opening says already: each has a part of their key words.
 * @param says whether a text says a line with these key words
 */
export function saidLines(text: string, lines: readonly string[], says: (keyWords: string, text: string) => boolean): number {
  const sentences = text.split('\n').reduce((sum, line) => sum + sentencesIn(line).length, 0)
  const first = lines.slice(0, sentences).findIndex((line) => !says(keyWordsOf(parseLine(line)), text))
  return first < 0 ? Math.min(sentences, lines.length) : first
}

/** What follows an opening, whose white space at its end the client has. */
export function afterOpening(opening: string, text: string): string {
  const space = opening.slice(opening.trimEnd().length)
  if (text.startsWith(space)) return text.slice(space.length)
  return space.includes('\n') ? text.trimStart() : text
}
