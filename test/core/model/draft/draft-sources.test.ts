import { expect, it } from 'vitest'
import { draftSources } from '../../../../core/model/draft/draft-sources.ts'

it('drafts come from an adapter, from small models with the tokenizer, and always from prompt lookup', () => {
  const small = [
    { name: 'same', tokenizerHash: 'a' },
    { name: 'other', tokenizerHash: 'b' },
    { name: 'unknown', tokenizerHash: undefined },
  ]
  const all = draftSources({ hasAdapter: true, tokenizerHash: 'a', small })
  expect(all).toEqual([{ kind: 'adapter' }, { kind: 'slm', model: 'same' }, { kind: 'lookup' }])
  expect(draftSources({ hasAdapter: false, tokenizerHash: undefined, small })).toEqual([{ kind: 'lookup' }])
})
