import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeyWordBias } from '../../../agent/pice/key-word-bias.ts'
import { chooseToken, greedy } from '../../../core/model/engine/sampler.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { coverage } from '../../../core/policy/pice/coverage.ts'
import { shared } from '../../support/shared.ts'

const tokenizer = shared(() => loadTokenizer('models/demo/slm-deep'))

const pick = (row: Float32Array) => chooseToken(row, greedy, 0)
/** The text of a model that finds all tokens equally likely, but for the one that is named. */
function written(line: string, steps: number, likes?: { readonly text: string; readonly by: number }): string {
  const bias = new KeyWordBias(tokenizer, line)
  const logits = new Float32Array(tokenizer.vocabSize)
  if (likes) logits[tokenizer.encode(likes.text, { addSpecialTokens: false })[0]!] = likes.by
  return tokenizer.decode(Array.from({ length: steps }, () => bias.choose(logits, pick)))
}

const words = ['worn', 'washer', 'dripping', 'tap', 'blackbird', 'not', 'newspaper', 'Anna', '1850', 'thorn']

describe("the raise of a line's key words", () => {
  it('makes a model that prefers nothing write them, in their order', () => {
    expect(written('dripping tap worn washer', 16)).toMatch(/^Dripping tap worn washer(?!\w)/)
  })

  it('covers any line', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.constantFrom(...words), { minLength: 1, maxLength: 6 }), (chosen) => {
        const line = chosen.join(' ')
        expect(coverage(line, written(line, 40))).toBe(1)
      }),
    )
  })

  it('gives way to a word that the model finds much likelier', () => {
    expect(written('tap washer', 5, { text: ' the', by: 3 })).toBe(' the the the the the')
    expect(written('tap washer', 2, { text: ' the', by: 2 })).toMatch(/^Tap/)
  })

  it('ends with the word: it is not written again, and no other is begun within it', () => {
    const text = written('washer newspaper', 30, { text: '.', by: 1 })
    expect(text).toMatch(/^Washer newspaper\.+$/)
  })

  it('leaves the logits as they were, whatever is chosen', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 4_095 }), { maxLength: 20 }), fc.boolean(), (ids, fails) => {
        const bias = new KeyWordBias(tokenizer, 'dripping tap worn washer')
        const logits = Float32Array.from({ length: tokenizer.vocabSize }, (_, id) => Math.sin(id))
        const before = logits.slice()
        for (const id of ids) {
          bias.choose(logits, () => id)
          expect(logits).toEqual(before)
        }
        if (!fails) return
        const refused = () => {
          throw new Error('no token')
        }
        expect(() => bias.choose(logits, refused)).toThrow('no token')
        expect(logits).toEqual(before)
      }),
      { numRuns: 30 },
    )
  })

  it('is without effect where the line has no words', () => {
    expect(written('…', 3, { text: ' the', by: 1 })).toBe(' the the the')
  })
})
