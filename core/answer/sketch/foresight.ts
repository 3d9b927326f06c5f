import { type PicePrompts, tokensPerWord } from './prompts.ts'
import { visibleReply, withoutMarks } from './reply.ts'

/** More than any answer has: such a number is a year, a sum or a loop. */
const maxWords = 50_000

// "150", "1,200", "1 200", "~150.5"; not the 5 of "-5" or of "x5".
const number = String.raw`(?<![\p{L}\p{N}.,-])(\d{1,3}(?:[, \u00a0]\d{3})+|\d+)(?:\.\d+)?(?![\p{L}\p{N}])`
const range = new RegExp(String.raw`${number}\s*(?:-|–|—|to|and|or)\s*(\d{1,3}(?:[, \u00a0]\d{3})+|\d+)`, 'iu')
const counted = new RegExp(String.raw`${number}\s*(?:\p{L}+\s+)?(?:words?|tokens?)\b`, 'iu')
const first = new RegExp(number, 'u')

/**
 * The length that a model foresees, in the unit that it was asked for: the middle of a range, else the number before "words" or
 * "tokens", else the first number. Undefined: no usable number, as in "a few hundred", "-5", "0" or a loop of digits.
 */
export function parseForesight(reply: string): number | undefined {
  // A model that begins to answer writes "1. …".
  const text = visibleReply(reply).split('\n').map(withoutMarks).join('\n')
  const between = range.exec(text)
  const found = between ?? counted.exec(text) ?? first.exec(text)
  if (!found) return undefined
  const low = countOf(found[1]!)
  const high = between ? countOf(between[2]!) : low
  const value = high >= low ? Math.round((low + high) / 2) : low
  return value >= 1 && value <= maxWords ? value : undefined
}

/** The same in tokens of the model. */
export function foreseenTokens(reply: string, { foresightUnit }: Pick<PicePrompts, 'foresightUnit'>): number | undefined {
  const value = parseForesight(reply)
  return value === undefined || foresightUnit === 'tokens' ? value : Math.round(value * tokensPerWord)
}

const countOf = (digits: string): number => Number(digits.replace(/\D/g, ''))
