import { describe, expect, it } from 'vitest'
import { fewestTokens } from '../../../../core/answer/endpoint/fewest-tokens.ts'

describe('the least number of tokens of a text', () => {
  it.each([
    ['', 0],
    [' \n\t\u00a0', 0],
    ['one', 1],
    ['  one two\nthree ', 3],
    // Tokens exist for long rules and indents.
    [`${'-'.repeat(256)} ${' '.repeat(255)}x`, 2],
    // But not for rules without an end: 2,048 bytes are 8 tokens at least, 2,048 blanks 7 beside the word that they precede.
    ['-'.repeat(2_048), 8],
    [`${' '.repeat(2_048)}x`, 8],
    ['ab'.repeat(32), 2],
    ['灯'.repeat(3), 1],
    ['灯台守'.repeat(11), 4],
    ['😀😁'.repeat(8), 2],
  ])('of %j is %i', (text, tokens) => {
    expect(fewestTokens(text)).toEqual({ tokens, length: text.length })
  })

  it('ends before the first token too many, at a whole character', () => {
    expect(fewestTokens('one two three', 2)).toEqual({ tokens: 2, length: 8 })
    expect(fewestTokens('one two', 2)).toEqual({ tokens: 2, length: 7 })
    expect(fewestTokens('😀😁'.repeat(8), 1)).toEqual({ tokens: 1, length: 16 })
    expect(fewestTokens(' one', 0)).toEqual({ tokens: 0, length: 1 })
    expect(fewestTokens('-'.repeat(501_000), 64)).toEqual({ tokens: 64, length: 64 * 256 })
    expect(fewestTokens(' '.repeat(501_000), 64).length).toBe(65 * 256)
  })
})
