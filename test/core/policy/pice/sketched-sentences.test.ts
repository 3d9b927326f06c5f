import fc from 'fast-check'
import { expect, it } from 'vitest'
import { maxParallelSentences, SketchedSentences } from '../../../../core/policy/pice/sketched-sentences.ts'

const sketch = fc.record({
  tokens: fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 20 }),
  candidates: fc.integer({ min: 1, max: 3 }),
  maxTokens: fc.constantFrom(0, 40, Number.POSITIVE_INFINITY),
  /** Candidates arrive in this order; what is missing of them does not. */
  order: fc.array(fc.nat({ max: 59 }), { maxLength: 60 }),
})

it('sends each sentence once, in the order of the sketch, until the answer has as many tokens as it may', () => {
  fc.assert(
    fc.property(sketch, ({ tokens, candidates, maxTokens, order }) => {
      const sentences = new SketchedSentences(tokens.length, candidates, maxTokens)
      const sent: number[] = []
      const take = (sentence: number) => {
        sentences.choose(sentence, tokens[sentence]!)
        sent.push(...sentences.takeReady())
      }
      const arrivals = new Set(order.filter((place) => place < tokens.length * candidates))
      for (const place of arrivals) {
        const sentence = place % tokens.length
        if (sentences.arrived(sentence)) take(sentence)
      }
      for (const sentence of sentences.incomplete) take(sentence)
      for (let next = sentences.nextOfLlm; next.length > 0; next = sentences.nextOfLlm) {
        expect(next.length).toBeLessThanOrEqual(maxParallelSentences)
        for (const sentence of next) take(sentence)
      }
      const fitting = tokens.findIndex((_, at) => tokens.slice(0, at + 1).reduce((sum, own) => sum + own, 0) > maxTokens)
      const count = fitting < 0 ? tokens.length : fitting
      expect(sent).toEqual(Array.from({ length: count }, (_, at) => at))
      expect(sentences.isCut).toBe(fitting >= 0)
      expect(sentences.needsMore).toBe(false)
    }),
  )
})

it('chooses from what has arrived of a sentence where the rest does not come', () => {
  const sentences = new SketchedSentences(3, 2)
  expect([0, 0, 2].map((sentence) => sentences.arrived(sentence))).toEqual([false, true, false])
  expect(sentences.incomplete).toEqual([2])
  sentences.choose(0, 5)
  sentences.choose(2, 5)
  expect(sentences.nextOfLlm).toEqual([1])
})
