import { expect, it } from 'vitest'
import { inTokensOf, sharesTokens, type TextModel, textModel } from '../../../../core/answer/endpoint/text-model.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

async function modelWith(hash: string | undefined, vocab = 160): Promise<TextModel> {
  using bundle = await tinyBundle()
  const { manifest } = bundle
  const files = hash === undefined ? [] : [{ path: 'tokenizer/tokenizer.json', bytes: 1, sha256: hash.repeat(64) }]
  const tokenizer = await loadTokenizer(fixtureDir('llama'))
  return textModel({ ...manifest, dims: { ...manifest.dims, vocab }, files }, tokenizer, undefined)
}

it('shares tokens between models with the same tokenizer file and a vocabulary that holds them all', async () => {
  const split = await modelWith('a')
  expect(sharesTokens(await modelWith('a'), split)).toBe(true)
  expect(sharesTokens(await modelWith('a', 192), split)).toBe(true)
  expect(sharesTokens(await modelWith('a', 159), split)).toBe(false)
  expect(sharesTokens(await modelWith('b'), split)).toBe(false)
})

it('never shares tokens between models whose bundles list no tokenizer', async () => {
  expect(sharesTokens(await modelWith(undefined), await modelWith(undefined))).toBe(false)
})

it('tokenises the text again for a model of another vocabulary', async () => {
  const [own, other] = [await modelWith('a'), await modelWith('b')]
  const shifted = { ...own.tokenizer, encode: (text: string) => [text.length] }
  const ids = other.tokenizer.encode('one two three', { addSpecialTokens: false })
  expect(inTokensOf(await modelWith('b'), { model: other, ids })).toEqual(ids)
  expect(inTokensOf({ ...own, tokenizer: shifted }, { model: other, ids })).toEqual(['one two three'.length])
})
