import { describe, expect, it } from 'vitest'
import { foreseenTokens, parseForesight } from '../../../../core/answer/sketch/foresight.ts'

describe('a foreseen length', () => {
  it.each([
    ['128', 128],
    ['  64\n', 64],
    ['About 150 words.', 150],
    ['~300 tokens', 300],
    ['My answer will have approximately 1,200 words.', 1200],
    ['150-200', 175],
    ['between 100 and 200 words', 150],
    ['150 to 200 words', 175],
    ['In 3 paragraphs, 240 words', 240],
    ['I expect 250 English words in 5 paragraphs', 250],
    ['**180**', 180],
    ['120.5', 120],
    ['<think>The answer has 3 parts of 50 words.</think>150', 150],
  ])('is read from %j', (reply, length) => {
    expect(parseForesight(reply)).toBe(length)
  })

  it.each([
    '',
    'a few hundred words',
    'three hundred',
    '-5',
    '0',
    '0 words',
    '99999999999999999999999999',
    '9'.repeat(100_000),
    'I cannot tell.',
    'NaN',
    'The main benefits are:\n\n1. Better sleep\n2. Less stress',
    'GPT4all',
    '<think>Perhaps 100? Or 200?',
  ])('is unknown after %.40j', (reply) => {
    expect(parseForesight(reply)).toBeUndefined()
  })

  it('is in tokens, whatever the model was asked for', () => {
    expect(foreseenTokens('150 words', { foresightUnit: 'words' })).toBe(200)
    expect(foreseenTokens('150', { foresightUnit: 'tokens' })).toBe(150)
    expect(foreseenTokens('long', { foresightUnit: 'words' })).toBeUndefined()
  })
})
