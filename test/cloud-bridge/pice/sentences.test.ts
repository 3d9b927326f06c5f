import { expect, it } from 'vitest'
import { Sentences } from '../../../cloud-bridge/pice/sentences.ts'

const source = { kind: 'device', model: { name: 'small' }, device: 'jetson-01' } as const
const counts = { cloudTokens: 0, edgeTokens: 0 }
const written = (text: string, tokens: number) =>
  ({ kind: 'sentence', sentence: 0, text, tokens, source, confidence: null, ...counts }) as const

it('a sentence has no more tokens than bytes, and no fewer than words, whatever its device claims', () => {
  for (const [text, claimed, counted] of [
    ['two words', 3, 3],
    ['two words', 65_536, 9],
    ['two words', 0, 2],
    ['', 65_536, 0],
  ] as const) {
    const sentences = new Sentences(['a line'], 1, 100)
    sentences.choose(written(text, claimed))
    expect([...sentences.ready()]).toMatchObject([{ text, tokenCount: counted }])
  }
  const short = new Sentences(['a line'], 1, 4)
  short.choose(written('far more words than that', 1))
  expect([...short.ready(), short.order.isCut]).toEqual([true])
})

it('the same text for another line is none, unless the line has a title of its own', () => {
  const sentences = new Sentences(['rain', 'wind', '**Cost:** none', '**Risk:** none'], 1, 100)
  const record = (sentence: number, text: string) => ({ ...written(text, 2), sentence })
  for (const sentence of [0, 1, 2, 3])
    sentences.choose(sentences.withoutRepeat(record(sentence, sentence < 2 ? 'It is wet.' : 'There is none.')))
  expect([...sentences.ready()].map(({ text }) => text).join('')).toBe(
    'It is wet.\n\n**Cost:** There is none.\n\n**Risk:** There is none.',
  )
})
