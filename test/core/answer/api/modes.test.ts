import { describe, expect, it } from 'vitest'
import { readChatRequest, readCompletionRequest } from '../../../../core/answer/api/request.ts'
import type { Dispatching, Served } from '../../../../core/answer/api/served.ts'
import type { TokenEndpoint } from '../../../../core/answer/endpoint/endpoint.ts'
import { FieldError } from '../../../../core/wire/openai/api-error.ts'

const endpoint = { model: { name: 'm', tokenizer: {}, chatTemplate: {} } } as unknown as TokenEndpoint
const bridge = {
  requestLimits: { apiAnswers: 4, apiPromptBytes: 100 },
  models: [{ name: 'm', endpoint, createdAt: '2026-01-01T00:00:00Z' }],
  nextSeed: () => 1,
} satisfies Served
const anything: Dispatching = { modes: [], check: () => {} }
const agent = (dispatch: Dispatching = anything) => ({ ...bridge, dispatch }) satisfies Served

const read = (brim: object, served: Served, more: object = {}) =>
  readChatRequest({ messages: [{ role: 'user', content: 'x' }], brim, ...more }, served, { client: 'app' })

describe('brim.mode at a bridge', () => {
  it.each(['private', 'local'])('rejects %s: a bridge is never silently less private', (mode) => {
    expect(() => read({ mode }, bridge)).toThrow(expect.objectContaining({ param: 'brim.mode', hint: 'ask an agent' }))
  })

  it.each(['cloud', 'cheap', 'fast', 'sketch'])('has no effect as %s, and the response says so', (mode) => {
    expect(read({ mode }, bridge).ignored).toEqual(['brim.mode'])
  })

  it.each(['auto', 'full'])('knows %s', (mode) => {
    const { answers, ignored } = read({ mode }, bridge)
    expect(answers[0]?.mode).toBe(mode)
    expect(ignored).toEqual([])
  })
})

describe('brim.mode at an agent', () => {
  it.each(['private', 'local', 'cloud', 'sketch', 'cheap', 'fast', 'auto'])('knows %s', (mode) => {
    const { answers, ignored } = read({ mode }, agent())
    expect(answers[0]?.mode).toBe(mode)
    expect(ignored).toEqual([])
  })

  it('has no effect as full', () => {
    const { answers, ignored } = read({ mode: 'full' }, agent())
    expect(answers[0]?.mode).toBeUndefined()
    expect(ignored).toEqual(['brim.mode'])
  })

  it('is checked with the request before any work', () => {
    const dispatch: Dispatching = {
      modes: [],
      check({ mode, tokenIds }) {
        if (mode === 'cloud' && tokenIds) throw new FieldError('REQUEST_INVALID', 'brim.mode', 'no token ids')
      },
    }
    expect(read({ mode: 'cloud' }, agent(dispatch)).answers).toHaveLength(1)
    expect(() => read({ mode: 'cloud', token_ids: true }, agent(dispatch))).toThrow(/no token ids/)
  })

  it('is an unknown one elsewhere', () => {
    expect(() => read({ mode: 'quick' }, agent())).toThrow(expect.objectContaining({ param: 'brim.mode' }))
  })
})

describe('what an endpoint learns of its reader', () => {
  it('is whether the answer has a reader, and how fast: 0 means as fast as it comes', () => {
    expect(read({ tokens_per_s: 0 }, agent(), { stream: true }).answers[0]).toMatchObject({ tokensPerS: 0 })
    expect(read({}, agent(), { stream: true }).answers[0]?.isWhole).toBeUndefined()
    expect(read({}, agent()).answers[0]?.isWhole).toBe(true)
    const byHeader = readCompletionRequest({ prompt: 'x' }, agent(), { client: 'app', tokensPerS: '0' })
    expect(byHeader.answers[0]?.tokensPerS).toBe(0)
    expect(() => read({ tokens_per_s: -1 }, agent())).toThrow(/must be 0, or a number from 0.001 to 10000/)
  })
})
