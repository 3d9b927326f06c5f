import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Api } from '../../agent/api/server.ts'
import { AgentLimits } from '../../agent/limits.ts'
import { type AnswerRequest, startOf, type TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { type TextModel, textModel } from '../../core/answer/endpoint/text-model.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { loadChatTemplate } from '../../core/model/text/chat-template.ts'
import { loadTokenizer } from '../../core/model/text/tokenizer.ts'
import { promptsFlood } from '../../lab/attack/http-floods.ts'
import { startTestApi } from '../support/api.ts'
import { tempDir } from '../support/temp-dir.ts'

const folder = fileURLToPath(new URL('../../models/demo/llm', import.meta.url))
const mebibyte = 2 ** 20

/** Letters in no order: the worst case of the tokenizer, about 10 µs a letter. */
function randomLetters(length: number): string {
  const random = seededRandom(1)
  return Array.from({ length }, () => String.fromCharCode(97 + Math.floor(random.next() * 26))).join('')
}

/** An endpoint that reads the prompt and answers nothing but the end of text. */
function readerOf(model: TextModel): TokenEndpoint {
  return {
    model,
    async *answer(request: AnswerRequest, signal: AbortSignal) {
      await startOf(request, model, signal)
      yield { source: { kind: 'hat', model }, tokens: [model.eos[0]!], end: 'stop' }
    },
  }
}

async function load(contextLimit: number, from = folder): Promise<TextModel> {
  const tokenizer = await loadTokenizer(from)
  const manifest = { card: { name: 'demo' }, dims: { contextLimit, vocab: 4_096 }, tokens: { eos: [0] }, files: [] }
  return textModel(manifest as never, tokenizer, await loadChatTemplate(from), from)
}

let api: Api
const start = async (contextLimit: number, limits: Partial<AgentLimits> = {}, from = folder) => {
  const model = await load(contextLimit, from)
  api = await startTestApi({ card: { name: 'demo', createdAt: '2026-01-01T00:00:00Z' } as never }, readerOf(model), {
    requestLimits: AgentLimits.parse(limits),
  })
  return model
}
afterEach(() => api.close())

async function post(path: string, body: string, signal: AbortSignal | null = null) {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${api.url}${path}`, { method: 'POST', headers, body, signal })
  const { error, usage } = (await response.json()) as {
    error?: { code: string; param: string | null; message: string }
    usage?: { prompt_tokens: number }
  }
  return {
    status: response.status,
    code: error?.code,
    param: error?.param,
    message: error?.message,
    tokens: usage?.prompt_tokens,
  }
}
const complete = (prompt: unknown, signal?: AbortSignal) => post('/v1/completions', JSON.stringify({ prompt }), signal)
const chat = (messages: unknown) => post('/v1/chat/completions', JSON.stringify({ messages }))
const answersHealth = async () => (await fetch(`${api.url}/health`)).status === 200

describe('a prompt that the context cannot hold', () => {
  it('is refused by its length, before it is tokenised', async () => {
    await start(1_024, { apiPromptBytes: 4 * mebibyte })
    const text = 'a'.repeat(3 * mebibyte)
    expect(await complete(text)).toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      message: expect.stringContaining('at least'),
    })
    expect(await chat([{ role: 'user', content: text }])).toMatchObject({ status: 400, code: 'context_length_exceeded' })
  })

  it('is refused beyond the limit of the agent, whatever the context', async () => {
    await start(2 ** 30)
    const text = 'a'.repeat(mebibyte + 1)
    const refused = { status: 400, code: 'REQUEST_INVALID', message: expect.stringContaining('the limit is 1048576') }
    expect(await complete(text)).toMatchObject({ ...refused, param: 'prompt' })
    expect(await chat([{ role: 'user', content: text }])).toMatchObject({ ...refused, param: 'messages' })
  })
})

describe('a long prompt', () => {
  it('does not keep the agent from other requests while it is tokenised, and ends with its request', async () => {
    await start(2 ** 20)
    const gone = new AbortController()
    const isTokenised = complete(randomLetters(mebibyte), gone.signal).then(
      () => true,
      () => false,
    )
    // Each request takes a few turns of the event loop, all of which come before the prompt's end.
    for (let request = 0; request < 10; request++) expect(await answersHealth()).toBe(true)
    expect(await complete('The river')).toMatchObject({ status: 200 })
    gone.abort()
    expect(await isTokenised).toBe(false)
    expect(await complete('a '.repeat(8_192))).toMatchObject({ status: 200 })
  })

  it('has the same tokens as on the event loop', async () => {
    const model = await start(2 ** 20)
    const text = `${randomLetters(6_000)} Where does the river rise? ${'灯 '.repeat(500)}`
    const { signal } = new AbortController()
    expect(await model.prompts.encode({ kind: 'text', text }, '', signal)).toEqual(model.tokenizer.encode(text))
    const messages = [{ role: 'user', content: text }]
    const rendered = model.chatTemplate!.render(messages)
    const expected = model.tokenizer.encode(rendered, { addSpecialTokens: false })
    expect(await model.prompts.encode({ kind: 'chat', messages }, '', signal)).toEqual(expected)
  })

  it('is refused by the chat template as a short one is', async () => {
    using dir = tempDir()
    await cp(folder, dir.path, { recursive: true, filter: (file) => !file.endsWith('.safetensors') })
    await writeFile(join(dir.path, 'chat_template.jinja'), "{{ raise_exception('no conversations') }}")
    await start(2 ** 20, {}, dir.path)
    const refused = { status: 400, code: 'REQUEST_INVALID', message: expect.stringContaining('no conversations') }
    for (const content of ['short', 'long '.repeat(2_000)]) expect(await chat([{ role: 'user', content }])).toMatchObject(refused)
  })

  it('waits for shorter ones, and is dropped when its client leaves', async () => {
    const model = await start(2 ** 20)
    const [first, second] = [new AbortController(), new AbortController()]
    const encode = (text: string, { signal }: AbortController) => model.prompts.encode({ kind: 'text', text }, '', signal)
    const running = encode(randomLetters(mebibyte), first)
    const waiting = encode(randomLetters(mebibyte), second)
    const shorter = encode('a '.repeat(4_096), new AbortController())
    first.abort()
    await expect(running).rejects.toMatchObject({ code: 'CANCELED' })
    // The waiting one takes many seconds.
    expect(await Promise.race([shorter, waiting])).toHaveLength(4_097)
    second.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELED' })
    expect(await encode('a '.repeat(4_096), new AbortController())).toHaveLength(4_097)
  })
})

it('a flood of prompts keeps no other client from its answers', async () => {
  await start(1_024)
  const over = new AbortController()
  const flood = promptsFlood.run({ agentUrl: api.url, mqttUrl: '', httpUrl: '', dataUrl: '' }, over.signal)
  for (let request = 0; request < 10; request++) {
    expect(await answersHealth()).toBe(true)
    expect(await complete('The river')).toMatchObject({ status: 200 })
  }
  over.abort()
  const { refused } = await flood
  expect(refused).toBeGreaterThan(0)
})

describe('a request that takes long to parse or to check', () => {
  beforeEach(() => start(1_024))

  const invalid = { status: 400, code: 'REQUEST_INVALID' }
  it.each([
    [
      'a million levels of nesting',
      `{"prompt":"a","x":${'['.repeat(mebibyte)}${']'.repeat(mebibyte)}}`,
      /nested deeper than 64 levels/,
    ],
    ['a million lists', `{"prompt":"a","x":[${'[],'.repeat(mebibyte)}0]}`, /more than 262144 values/],
    ['a million token ids', `{"prompt":[${'1,'.repeat(mebibyte)}0]}`, /more than 262144 values/],
  ])('is refused unparsed: %s', async (_, body, message) => {
    expect(await post('/v1/completions', body)).toMatchObject({ ...invalid, message: expect.stringMatching(message) })
  })

  it.each([
    ['messages', { messages: Array(4_097).fill({ role: 'user', content: 'a' }) }],
    ['messages.0', { messages: Array(4_096).fill(0) }],
    ['messages.0.content.0', { messages: [{ role: 'user', content: Array(200_000).fill(0) }] }],
    ['stop', { messages: [{ role: 'user', content: 'a' }], stop: Array(200_000).fill('a') }],
    ['stop.0', { messages: [{ role: 'user', content: 'a' }], stop: ['a'.repeat(1_025)] }],
  ])('is refused with its first problem: %s', async (param, body) => {
    expect(await post('/v1/chat/completions', JSON.stringify(body))).toMatchObject({ ...invalid, param })
  })

  it('is refused with its first problem: prompt.0', async () => {
    expect(await complete(Array(200_000).fill(-1))).toMatchObject({ ...invalid, param: 'prompt.0' })
  })
})
