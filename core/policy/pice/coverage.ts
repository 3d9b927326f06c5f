import { wordsOf } from './rouge.ts'

/** Of the key words of a line, an expansion has at least this share: what has less is a sentence about something else. */
export const leastCoverage = 0.5

/** Letters that two inflections of a word share: "boil" and "boiling". */
const leastStem = 4
/** Of the longer of the two words. */
const leastStemShare = 0.55

/** Share of a line's key words that a text has, in any inflection, 0..1; 1 without key words. */
export function coverage(keyWords: string, text: string): number {
  const expected = wordsOf(keyWords)
  if (expected.length === 0) return 1
  const words = [...new Set(wordsOf(text))]
  return expected.filter((word) => words.some((other) => isSameWord(word, other))).length / expected.length
}

/** In lower case, in any inflection. */
export function isSameWord(one: string, other: string): boolean {
  if (one === other) return true
  const longer = Math.max(one.length, other.length)
  const stem = Math.max(leastStem, Math.ceil(leastStemShare * longer))
  return one.slice(0, stem) === other.slice(0, stem) && Math.min(one.length, other.length) >= stem
}
