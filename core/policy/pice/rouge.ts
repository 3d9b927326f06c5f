/** Unigram overlap of a text with its reference, each 0..1. */
export interface Rouge {
  /** Share of the reference's words that the text has. */
  readonly recall: number
  /** Share of the text's words that the reference has. */
  readonly precision: number
  readonly f1: number
}

/** Scripts without spaces count by character. */
export const wordPattern = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{M}\p{N}]+/gu

/** Words in lower case, without punctuation. */
export const wordsOf = (text: string): readonly string[] => text.toLowerCase().match(wordPattern) ?? []

/** ROUGE-1: a word that is there n times matches at most n times. All 0 where one side has no words. */
export function rouge1(reference: string, text: string): Rouge {
  const words = wordsOf(text)
  const expected = wordsOf(reference)
  const left = new Map<string, number>()
  for (const word of expected) left.set(word, (left.get(word) ?? 0) + 1)
  let matched = 0
  for (const word of words) {
    const count = left.get(word) ?? 0
    if (count === 0) continue
    left.set(word, count - 1)
    matched += 1
  }
  if (matched === 0) return { recall: 0, precision: 0, f1: 0 }
  return {
    recall: matched / expected.length,
    precision: matched / words.length,
    f1: (2 * matched) / (words.length + expected.length),
  }
}
