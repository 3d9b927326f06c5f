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
const withSmallModel = { ...served, slm: endpoint }

describe('the small model continues answers', () => {
  it.each([
    ['of requests that say so', withSmallModel, 'slm', 'slm'],
    ['not of others', withSmallModel, undefined, undefined],
    ['of others too, where the owner allows it', { ...withSmallModel, fallback: 'slm' as const }, undefined, 'slm'],
    ['not of requests that forbid it', { ...withSmallModel, fallback: 'slm' as const }, 'none', undefined],
    ['not where the owner allows it and has none', { ...served, fallback: 'slm' as const }, undefined, undefined],
  ])('%s', (_, at, fallback, expected) => {
    const { answers } = readCompletionRequest({ prompt: [1, 2], brim: { fallback } }, at, { client: 'app' })
    expect(answers.map((answer) => answer.fallback)).toEqual([expected])
  })
})
