import { describe, expect, it } from 'vitest'
import type { TokenEndpoint } from '../../../core/answer/endpoint.ts'
import { readCompletionRequest, type Served } from '../../../core/api/request.ts'

const endpoint = { model: { name: 'm', tokenizer: {} } } as unknown as TokenEndpoint
const served = {
  requestLimits: { apiAnswers: 4, apiJsonValues: 100, apiPromptBytes: 100, apiPromptMessages: 4 },
  modelNames: ['m'],
  endpoint,
  nextSeed: () => 1,
} satisfies Served

describe('ignore_eos', () => {
  it.each([
    [{ ignore_eos: true }, true],
    [{ ignore_eos: false }, undefined],
    [{ ignore_eos: null }, undefined],
    [{}, undefined],
  ])('%o: the answer goes on after end-of-text tokens: %s', (fields, expected) => {
    const { answers, ignored } = readCompletionRequest({ prompt: [1, 2], n: 2, ...fields }, served, undefined)
    expect(answers.map(({ ignoreEos }) => ignoreEos)).toEqual([expected, expected])
    expect(ignored).toEqual([])
  })

  it('must be a boolean', () => {
    expect(() => readCompletionRequest({ prompt: [1], ignore_eos: 'yes' }, served, undefined)).toThrow(/ignore_eos/)
  })
})
