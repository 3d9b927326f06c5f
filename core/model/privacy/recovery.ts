import type { TokenGuess } from './token-guess.ts'

/** How much of one text an attack has recovered, each 0..1. */
export interface TextRecovery {
  /** Share of the tokens that are the first guess, or among the first ten. */
  readonly top1: number
  readonly top10: number
  /** Of the text of the first guesses: the longest common subsequence of words over the words of the original. */
  readonly rougeL: number
  /** Share of names and numbers that are in the recovered text; null: the original has none. */
  readonly entities: number | null
}

/**
 * @param guesses for each of `ids`
 * @param decode ids → text
 */
export function recoveryOf(
  ids: readonly number[],
  guesses: readonly TokenGuess[],
  decode: (ids: readonly number[]) => string,
): TextRecovery {
  const share = (count: number) => ids.filter((id, at) => guesses[at]!.slice(0, count).includes(id)).length / ids.length
  const original = decode(ids)
  const recovered = decode(guesses.map(([first]) => first!))
  const words = wordsOf(original)
  const entities = entitiesOf(original)
  const found = new Set(wordsOf(recovered))
  return {
    top1: share(1),
    top10: share(10),
    rougeL: words.length === 0 ? 0 : longestCommonSubsequence(words, wordsOf(recovered)) / words.length,
    entities: entities.length === 0 ? null : entities.filter((entity) => found.has(entity)).length / entities.length,
  }
}

const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []

/** Words with a capital that begin no sentence, and numbers: each once. */
function entitiesOf(text: string): string[] {
  const names = [...text.matchAll(/(?<=[^\s.!?:"“*#\n]["”,;)]?[ ])\p{Lu}[\p{L}\p{M}]+/gu)].map(([name]) => name)
  return [...new Set([...names, ...(text.match(/\p{N}+/gu) ?? [])])]
}

function longestCommonSubsequence(a: readonly string[], b: readonly string[]): number {
  let before = new Array<number>(b.length + 1).fill(0)
  for (const word of a) {
    const row = [0]
    for (const [at, other] of b.entries()) row.push(word === other ? before[at]! + 1 : Math.max(before[at + 1]!, row[at]!))
    before = row
  }
  return before[b.length]!
}
