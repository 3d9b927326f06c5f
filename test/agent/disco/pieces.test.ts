import { expect, it } from 'vitest'
import { piecesOf } from '../../../agent/disco/pieces.ts'
import type { TokenDelta } from '../../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../../core/answer/endpoint/text-model.ts'

/** Tokens as bytes: " a", "b", the first two bytes of "€", and its last one. */
const bytes = [[0x20, 0x61], [0x62], [0xe2, 0x82], [0xac]]
const model = { name: 'bytes', tokenizer: { bytesOf: (id: number) => Uint8Array.from(bytes[id]!) } } as unknown as TextModel
const delta: TokenDelta = { source: { kind: 'slm', model }, tokens: [0, 1, 2, 3], end: 'length' }

it('a reader with a rate gets tokens one by one; each knows whether a word or a character ends before it', () => {
  expect(piecesOf(delta, true).map(({ tokens, border, isLast }) => [tokens, border, isLast])).toEqual([
    [1, 'word', false],
    [1, 'character', false],
    [1, 'character', false],
    [1, 'none', true],
  ])
  expect(piecesOf(delta, false)).toMatchObject([{ tokens: 4, border: 'word', isLast: true }])
})

it('a text is worth its tokens, at least one; a delta without content is nothing', () => {
  const text = (content: string, tokenCount: number) =>
    piecesOf({ source: { kind: 'upstream', model: { name: 'remote' } }, text: content, tokenCount, end: undefined }, true)
  expect(text(' word', 3)).toMatchObject([{ tokens: 3, border: 'word' }])
  expect(text('word', 0)).toMatchObject([{ tokens: 1, border: 'character' }])
  expect(text('', 0)).toEqual([])
})
