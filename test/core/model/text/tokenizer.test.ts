import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { loadTokenizer, type TextTokenizer } from '../../../../core/model/text/tokenizer.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../../oracle/fixtures/${name}`, import.meta.url))
const fixtures = ['llama', 'llama-mha', 'qwen2', 'llama3-rope']

describe.each(fixtures)('streaming with the tokenizer of %s', (name) => {
  it('returns the text of all tokens except an incomplete character at the end', async () => {
    const tokenizer = await loadTokenizer(fixture(name))
    const ids = fc.array(fc.integer({ min: 0, max: tokenizer.vocabSize + 20 }), { maxLength: 40 })
    fc.assert(
      fc.property(ids, (tokens) => {
        const streamed = stream(tokenizer, tokens).join('')
        const whole = tokenizer.decode(tokens, { skipSpecialTokens: true })
        expect([streamed, `${streamed}\ufffd`]).toContain(whole)
      }),
    )
  })

  it('never returns half a character', async () => {
    const tokenizer = await loadTokenizer(fixture(name))
    // The sentencepiece tokenizers drop a space at the start of a text, in transformers too.
    const unit = fc.constantFrom('a', ' ', 'é', '灯', '😀', '👩‍💻', '\ufeff', '\n', '🏽')
    const text = fc.string({ unit, maxLength: 20 }).map((rest) => `x${rest}`)
    fc.assert(
      fc.property(text, (original) => {
        const pieces = stream(tokenizer, tokenizer.encode(original, { addSpecialTokens: false }))
        expect(pieces.join('')).toBe(original)
        expect(pieces.filter((piece) => /\ufffd|\p{Surrogate}/u.test(piece))).toEqual([])
      }),
    )
  })
})

describe('a tokenizer', () => {
  it('holds the bytes of an emoji until the last one', async () => {
    const tokenizer = await loadTokenizer(fixture('llama-mha'))
    const ids = ['<0xF0>', '<0x9F>', '<0x98>', '<0x80>'].map((token) => tokenizer.idOf(token) ?? -1)
    expect(stream(tokenizer, ids)).toEqual(['', '', '', '😀'])
    expect(stream(tokenizer, ids.slice(0, 3))).toEqual(['', '', ''])
  })

  it('has special tokens and returns no text for ids beyond its vocabulary', async () => {
    const tokenizer = await loadTokenizer(fixture('qwen2'))
    expect(tokenizer.vocabSize).toBe(500)
    expect([...tokenizer.specialIds].map((id) => tokenizer.tokenOf(id))).toEqual(['<|endoftext|>', '<|im_start|>', '<|im_end|>'])
    expect(tokenizer.idOf('<|im_end|>')).toBe(499)
    expect(tokenizer.idOf('no such token')).toBeUndefined()
    expect(tokenizer.decode([511, 499, 100_000])).toBe('<|im_end|>')
  })
})

describe('an invalid tokenizer', () => {
  let dir: string
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'brim-tokenizer-'))
  })
  afterEach(() => rm(dir, { recursive: true }))

  const failures: [string, string | undefined, RegExp][] = [
    ['a missing file', undefined, /tokenizer\.json: it cannot be read/],
    ['text that is not JSON', '{"model": ', /tokenizer\.json: it is not JSON/],
    ['an empty object', '{}', /model/],
    ['another kind of model', '{"model":{"type":"WordPiece","vocab":{}}}', /its model is WordPiece/],
    ['ids that are no numbers', '{"model":{"type":"BPE","vocab":{"a":"b"},"merges":[]}}', /vocab/],
    ['an unknown decoder', bpe({ decoder: { type: 'CTC' } }), /decoder CTC/],
    ['no decoder', bpe({ decoder: null }), /decoder null/],
    ['an unknown normalizer', bpe({ normalizer: { type: 'Rot13' } }), /Rot13/],
  ]
  it.each(failures)('is rejected with its file and a hint: %s', async (_, json, message) => {
    if (json !== undefined) await writeFile(join(dir, 'tokenizer.json'), json)
    const error = await loadTokenizer(dir).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BrimError)
    expect(error).toMatchObject({ code: 'TOKENIZER_INVALID', message: expect.stringMatching(message), hint: expect.any(String) })
    expect(String(error)).toContain(dir)
  })

  it('is also one with a tokenizer_config.json that is not an object', async () => {
    await copyFile(join(fixture('llama'), 'tokenizer.json'), join(dir, 'tokenizer.json'))
    await expect(loadTokenizer(dir)).resolves.toBeDefined()
    await writeFile(join(dir, 'tokenizer_config.json'), '[1]')
    await expect(loadTokenizer(dir)).rejects.toMatchObject({ code: 'TOKENIZER_INVALID' })
  })
})

function bpe(change: object): string {
  const model = { type: 'BPE', vocab: { a: 0 }, merges: [] }
  const none = { normalizer: null, pre_tokenizer: null, post_processor: null, added_tokens: [] }
  return JSON.stringify({ ...none, decoder: { type: 'ByteLevel' }, model, ...change })
}

function stream(tokenizer: TextTokenizer, ids: readonly number[]): string[] {
  const detokenizer = tokenizer.detokenizer()
  return ids.map((id) => detokenizer.push(id))
}
