import { describe, expect, it } from 'vitest'
import { readCompletionRequest } from '../../../../core/answer/api/request.ts'
import type { Served } from '../../../../core/answer/api/served.ts'
import type { TokenEndpoint } from '../../../../core/answer/endpoint/endpoint.ts'

const endpoint = { model: { name: 'm', tokenizer: {} } } as unknown as TokenEndpoint
const served = {
  requestLimits: { apiAnswers: 4, apiPromptBytes: 100 },
  models: [{ name: 'm', endpoint, createdAt: '2026-01-01T00:00:00Z' }],
  nextSeed: () => 1,
} satisfies Served

describe('ignore_eos', () => {
  it.each([
    [{ ignore_eos: true }, true],
    [{ ignore_eos: false }, undefined],
    [{ ignore_eos: null }, undefined],
    [{}, undefined],
  ])('%o: the answer goes on after end-of-text tokens: %s', (fields, expected) => {
    const { answers, ignored } = readCompletionRequest({ prompt: [1, 2], n: 2, ...fields }, served, { client: 'app' })
    expect(answers.map(({ ignoreEos }) => ignoreEos)).toEqual([expected, expected])
    expect(ignored).toEqual([])
  })

  it('must be a boolean', () => {
    expect(() => readCompletionRequest({ prompt: [1], ignore_eos: 'yes' }, served, { client: 'app' })).toThrow(/ignore_eos/)
  })
})
