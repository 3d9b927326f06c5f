import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AnswerStream } from '../../../../core/model/text/answer-stream.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { shared } from '../../../support/shared.ts'

const load = (name: string) => loadTokenizer(fileURLToPath(new URL(`../../../oracle/fixtures/${name}`, import.meta.url)))

const tokenizer = shared(() => load('qwen2'))

const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false })
const eos = [499, 497]

describe('an answer', () => {
  it('ends at an end-of-text token, which counts but has no text', () => {
    const ids = [...encode('Yes.'), 499]
    expect(run(ids, { maxTokens: 100, eos })).toEqual({ text: 'Yes.', end: 'stop', tokens: ids.length })
  })

  it('ends at the token limit and releases text held back for a stop string', () => {
    const ids = encode('one two STO')
    const limits = { maxTokens: ids.length, eos, stop: ['STOP'] }
    expect(run([...ids, ...encode('P')], limits)).toEqual({ text: 'one two STO', end: 'length', tokens: ids.length })
  })

  it('ends at a stop string that spans two tokens', () => {
    const ids = encode('one\nUser: two')
    expect(run(ids, { maxTokens: 100, eos, stop: ['\nUser:'] })).toMatchObject({ text: 'one', end: 'stop' })
    expect(run(ids, { maxTokens: 100, eos, stop: ['User: tw'] })).toMatchObject({ text: 'one\n', end: 'stop' })
  })

  it('is the text before the stop string for any token boundaries', () => {
    const words = fc
      .array(fc.constantFrom('lamp', ' ', '😀', '灯', 'the', '\n', 'é'), { maxLength: 12 })
      .map((all) => all.join(''))
    fc.assert(
      fc.property(words, words, (before, after) => {
        const { text, end } = run(encode(`${before}[END]${after}`), { maxTokens: 1_000, eos, stop: ['[END]'] })
        expect({ text, end }).toEqual({ text: before, end: 'stop' })
      }),
    )
  })

  it('releases held-back text at its end and rejects further tokens', () => {
    const stream = new AnswerStream(tokenizer, { maxTokens: 100, eos, stop: ['STOP'] })
    const text = encode('go STO').map((id) => stream.push(id).text)
    expect(text.join('')).toBe('go ')
    expect(stream.push(499)).toEqual({ text: 'STO', end: 'stop' })
    expect(stream.end).toBe('stop')
    expect(() => stream.push(1)).toThrow('ended')
  })
})

function run(ids: number[], limits: ConstructorParameters<typeof AnswerStream>[1]) {
  const stream = new AnswerStream(tokenizer, limits)
  let text = ''
  for (const id of ids) {
    text += stream.push(id).text
    if (stream.end) break
  }
  return { text, end: stream.end, tokens: stream.tokenIds.length }
}
