import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { AnswerText } from '../../../../core/answer/endpoint/answer-text.ts'
import type { TokenDelta } from '../../../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../../../core/answer/endpoint/text-model.ts'
import { createPromptEncoder } from '../../../../core/model/text/prompt-encoder.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { shared } from '../../../support/shared.ts'

async function load(name: string): Promise<TextModel> {
  const tokenizer = await loadTokenizer(fileURLToPath(new URL(`../../../oracle/fixtures/${name}`, import.meta.url)))
  const dims = { contextLimit: 1_000, vocab: tokenizer.vocabSize }
  const prompts = createPromptEncoder({ name, tokenizer, chatTemplate: undefined, contextLimit: dims.contextLimit })
  return { name, dims, eos: [], tokenizer, chatTemplate: undefined, prompts, grammars: undefined, tokenizerHash: name }
}

const first = shared(() => load('qwen2'))
/** A model with the same tokens. */
let same: TextModel
/** A model with another vocabulary, which adds a space before the first word of a text and strips it again. */
const other = shared(() => load('llama-mha'))
beforeAll(async () => {
  same = { ...first, name: 'same' }
})

const idsOf = ({ tokenizer }: TextModel, text: string) => tokenizer.encode(text, { addSpecialTokens: false })
const delta = (model: TextModel, tokens: readonly number[], end?: TokenDelta['end']): TokenDelta => {
  return { source: { kind: 'hat', model }, tokens, end }
}
const begun = (ids: readonly number[], stop: string[] = []) => {
  const answer = new AnswerText({ model: first, ids: [] }, stop)
  return { answer, text: answer.push(delta(first, ids)).text }
}
/** The text of tokens of the first model, in whole characters. */
const textOf = (ids: readonly number[]) => begun(ids).text

const texts = fc
  .array(fc.constantFrom('lamp', ' ', '😀', '灯', 'the', '\n', 'é', '<end>'), { minLength: 1, maxLength: 12 })
  .map((all) => all.join(''))

describe('the text of an answer', () => {
  it('is empty for the end-of-text token, and includes withheld text at its end', () => {
    const { answer, text } = begun(idsOf(first, 'go STO'), ['STOP'])
    expect(text).toBe('go ')
    expect(answer.push(delta(first, [499], 'stop'))).toEqual({ text: 'STO', tokens: 1, end: 'stop' })
  })

  it('counts the tokens of a delta up to a stop string, which wins over the delta’s own end', () => {
    const ids = idsOf(first, 'one two three four')
    const answer = new AnswerText({ model: first, ids: [] }, ['two'])
    const { text, tokens, end } = answer.push(delta(first, ids, 'length'))
    expect([text, end]).toEqual(['one ', 'stop'])
    expect(textOf(ids.slice(0, tokens))).toContain('two')
    expect(textOf(ids.slice(0, tokens - 1))).not.toContain('two')
  })

  it('begins after tokens that were answered before', () => {
    const answer = new AnswerText({ model: other, ids: idsOf(other, 'the') }, [])
    expect(answer.push(delta(other, idsOf(other, 'lamp'))).text).toBe(' lamp')
  })

  it('rejects an empty stop string', () => {
    expect(() => new AnswerText({ model: first, ids: [] }, [''])).toThrow(/stop string is empty/)
  })
})

describe('the text of an answer that another model continues', () => {
  it('is the same wherever the models change, if they share tokens', () => {
    fc.assert(
      fc.property(texts, fc.nat(), (whole, place) => {
        const ids = idsOf(first, whole)
        const cut = place % (ids.length + 1)
        const { answer, text } = begun(ids.slice(0, cut))
        expect(text + answer.push(delta(same, ids.slice(cut))).text).toBe(whole)
      }),
    )
  })

  it('has no broken character for any vocabularies and any position of the change', () => {
    fc.assert(
      fc.property(texts, texts, fc.nat(), fc.boolean(), (before, after, place, isSame) => {
        const all = idsOf(first, before)
        const ids = all.slice(0, place % (all.length + 1))
        const { answer, text } = begun(ids)
        const next = isSame ? same : other
        const rest = answer.push(delta(next, idsOf(next, after))).text
        expect(text + rest).toBe(textOf(ids) + (isSame || textOf(ids) === '' ? '' : ' ') + after)
      }),
      {
        examples: [
          ['😀', 'lamp', 1, true],
          ['😀', '灯', 1, true],
        ],
      },
    )
  })

  it('ends at a stop string that begins before the change', () => {
    const { answer, text } = begun(idsOf(first, 'one <e'), ['<end>'])
    expect(text).toBe('one ')
    expect(answer.push(delta(same, idsOf(first, 'nd> two')))).toMatchObject({ text: '', end: 'stop' })
  })
})
