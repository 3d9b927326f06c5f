import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { AnswerStream } from '../../../core/text/answer-stream.ts'
import { loadTokenizer, type TextTokenizer } from '../../../core/text/tokenizer.ts'

const load = (name: string) => loadTokenizer(fileURLToPath(new URL(`../../oracle/fixtures/${name}`, import.meta.url)))

let tokenizer: TextTokenizer
/** Of another vocabulary, which writes a space before a text's first word and takes it off again. */
let other: TextTokenizer
beforeAll(async () => {
  tokenizer = await load('qwen2')
  other = await load('llama-mha')
})

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

describe('an answer that another model continues', () => {
  const limits = { maxTokens: 1_000, eos }
  const texts = fc
    .array(fc.constantFrom('lamp', ' ', '😀', '灯', 'the', '\n', 'é', '<end>'), { minLength: 1, maxLength: 12 })
    .map((all) => all.join(''))
  const begun = (ids: readonly number[], stop: string[] = []) => {
    const stream = new AnswerStream(tokenizer, { ...limits, stop })
    return { stream, text: ids.map((id) => stream.push(id).text).join('') }
  }
  /** What the first model's tokens say, in whole characters. */
  const said = (ids: readonly number[]) => begun(ids).text
  const otherIds = (text: string) => other.encode(text, { addSpecialTokens: false })

  it('has the same text if the other model generates the same tokens', () => {
    fc.assert(
      fc.property(texts, fc.nat(), (whole, place) => {
        const ids = encode(whole)
        const cut = place % (ids.length + 1)
        const { stream, text } = begun(ids.slice(0, cut))
        stream.handOver(limits)
        expect(
          text +
            ids
              .slice(cut)
              .map((id) => stream.push(id).text)
              .join(''),
        ).toBe(whole)
      }),
    )
  })

  it('has no broken character for any vocabularies and any position of the change', () => {
    fc.assert(
      fc.property(texts, texts, fc.nat(), fc.boolean(), (first, second, place, same) => {
        const ids = encode(first).slice(0, place % (encode(first).length + 1))
        const { stream, text } = begun(ids)
        const next = same ? encode(second) : otherIds(second)
        stream.handOver(limits, same ? undefined : { tokenizer: other, tokenIds: otherIds(said(ids)) })
        const rest = next.map((id) => stream.push(id).text).join('')
        expect(text + rest).not.toContain('\ufffd')
        expect(text + rest).toBe(said(ids) + (same || said(ids) === '' ? '' : ' ') + second)
      }),
      {
        examples: [
          ['😀', 'lamp', 1, true],
          ['😀', '灯', 1, true],
        ],
      },
    )
  })

  it('retains the space before the first word of the other model', () => {
    const { stream, text } = begun(encode('the'))
    stream.handOver(limits, { tokenizer: other, tokenIds: otherIds('the') })
    const rest = otherIds('lamp').map((id) => stream.push(id).text)
    expect(text + rest.join('')).toBe('the lamp')
  })

  it('ends at a stop string that begins before the change', () => {
    const { stream, text } = begun(encode('one <e'), ['<end>'])
    expect(text).toBe('one ')
    stream.handOver(limits)
    const rest = encode('nd> two').map((id) => (stream.end ? '' : stream.push(id).text))
    expect([rest.join(''), stream.end]).toEqual(['', 'stop'])
  })

  it('ends at the end-of-text token of the second model, and at the limit for all tokens', () => {
    const { stream } = begun(encode('one'))
    stream.handOver({ maxTokens: stream.tokenIds.length + 2, eos: [7] })
    expect(stream.push(499)).toEqual({ text: '' })
    expect(stream.push(5).end).toBe('length')
    const { stream: again } = begun(encode('one'))
    again.handOver({ maxTokens: 1_000, eos: [7] })
    expect(again.push(7)).toEqual({ text: '', end: 'stop' })
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
