import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rouge1, wordsOf } from '../../../../core/policy/pice/rouge.ts'

describe('ROUGE-1', () => {
  it.each<[string, string, number, number]>([
    ['the cat sat', 'The cat sat.', 1, 1],
    ['mix flour eggs', 'First, mix the flour with two eggs.', 1, 3 / 7],
    ['the the cat', 'the dog', 1 / 3, 1 / 2],
    ['the cat', 'the the the', 1 / 2, 1 / 3],
    ['naïve café', 'NAÏVE', 1 / 2, 1],
    ['猫坐', '猫在坐', 1, 2 / 3],
    ['cat', 'dog', 0, 0],
    ['', 'dog', 0, 0],
    ['cat', '…', 0, 0],
  ])('of %j in %j has recall %f and precision %f', (reference, text, recall, precision) => {
    const score = rouge1(reference, text)
    expect(score.recall).toBeCloseTo(recall)
    expect(score.precision).toBeCloseTo(precision)
    expect(score.f1).toBeCloseTo(recall + precision > 0 ? (2 * recall * precision) / (recall + precision) : 0)
  })

  it('counts the words that both have, each as often as both have it', () => {
    const word = fc.constantFrom('a', 'b', 'c', 'd')
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), fc.array(word, { minLength: 1 }), (reference, text) => {
        const times = (words: readonly string[], one: string) => words.filter((word) => word === one).length
        const both = ['a', 'b', 'c', 'd'].reduce((sum, one) => sum + Math.min(times(reference, one), times(text, one)), 0)
        expect(rouge1(reference.join(' '), text.join(' ')).recall).toBeCloseTo(both / reference.length)
      }),
    )
  })

  it('ignores punctuation between words', () => {
    expect(wordsOf('Eggs, 2 of them: (boiled)!')).toEqual(['eggs', '2', 'of', 'them', 'boiled'])
  })
})
