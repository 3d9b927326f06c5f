import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import OpenAI from 'openai'
import { beforeAll, describe, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../core/model/bundle/manifest.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { loadChatTemplate } from '../../../core/model/text/chat-template.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { postJson } from '../../support/post-json.ts'
import { openReference } from '../../support/reference-model.ts'
import { shared } from '../../support/shared.ts'

const messages = [{ role: 'user' as const, content: 'Where does the river rise?' }]

const world = shared(startAgentWorld)
const reference = shared(() => openReference(world.bundle))
let openai: OpenAI
let chatIds: number[]
beforeAll(async () => {
  openai = new OpenAI({ baseURL: `${world.agent.apiUrl}/v1`, apiKey: 'none', maxRetries: 0 })
  chatIds = reference.chatIds(messages)
})

interface Extended {
  brim: {
    mode: string
    ttftMs: number
    tbtMs: { p50: number; p95: number }
    acceptLength: number
    rounds: number
    tokenIds?: number[]
  }
}

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await postJson(`${world.agent.apiUrl}${path}`, body, headers)
  return { status: response.status, body: (await response.json()) as Record<string, never> }
}

describe('the unmodified openai package', () => {
  it('gets a whole chat answer', async () => {
    const expected = await reference.answer(chatIds, greedy, 12)
    const answer = await openai.chat.completions.create({ model: 'tiny-llama', messages, max_tokens: 12, temperature: 0 })
    expect(answer.choices[0]).toMatchObject({
      index: 0,
      message: { role: 'assistant', content: reference.textOf(expected) },
      finish_reason: 'length',
    })
    expect(answer.usage).toEqual({ prompt_tokens: chatIds.length, completion_tokens: 12, total_tokens: chatIds.length + 12 })
    expect(answer).toMatchObject({ object: 'chat.completion', model: 'tiny-llama', id: expect.stringMatching(/^chatcmpl-/) })
  })

  it('gets the same answer as a stream, with usage and figures at the end', async () => {
    const expected = await reference.answer(chatIds, greedy, 12)
    const stream = await openai.chat.completions.create({
      model: 'brim',
      messages,
      max_completion_tokens: 12,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
      ...{ brim: { token_ids: true } },
    })
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(reference.textOf(expected))
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('length')
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } })
    for (const chunk of chunks.slice(-2) as unknown as Extended[]) {
      expect(chunk.brim).toMatchObject({ mode: 'hat', ttftMs: expect.any(Number), tokenIds: expected })
      expect(chunk.brim.tbtMs.p95).toBeGreaterThanOrEqual(chunk.brim.tbtMs.p50)
    }
  })

  it('completes a text, given as text or as tokens, streamed or not', async () => {
    const ids = reference.tokenizer.encode('The old mill')
    const expected = reference.textOf(await reference.answer(ids, greedy, 10))
    const options = { model: 'tiny-llama', max_tokens: 10, temperature: 0 }
    expect((await openai.completions.create({ ...options, prompt: 'The old mill' })).choices[0]!.text).toBe(expected)
    expect((await openai.completions.create({ ...options, prompt: ids })).choices[0]!.text).toBe(expected)
    let text = ''
    for await (const chunk of await openai.completions.create({ ...options, prompt: ids, stream: true }))
      text += chunk.choices[0]?.text ?? ''
    expect(text).toBe(expected)
  })

  it('completes several prompts in one request, as texts or as tokens, streamed or not', async () => {
    const prompts = ['The old mill', 'Where does']
    const ids = prompts.map((prompt) => reference.tokenizer.encode(prompt))
    const expected: string[] = []
    for (const each of ids) expected.push(reference.textOf(await reference.answer(each, greedy, 10)))
    const options = { model: 'brim', max_tokens: 10, temperature: 0 }
    for (const prompt of [prompts, ids]) {
      const { choices, usage } = await openai.completions.create({ ...options, prompt })
      expect(choices.map(({ index, text }) => [index, text])).toEqual(expected.map((text, index) => [index, text]))
      expect(choices[1]).toMatchObject({ brim: { mode: 'hat', ttftMs: expect.any(Number) } })
      expect(usage).toMatchObject({ prompt_tokens: ids.flat().length, completion_tokens: 20 })
    }
    const texts = ['', '']
    for await (const { choices } of await openai.completions.create({ ...options, prompt: prompts, stream: true }))
      for (const { index, text } of choices) texts[index] += text
    expect(texts).toEqual(expected)
    expect((await openai.completions.create({ ...options, prompt: [prompts[0]!] })).choices[0]!.text).toBe(expected[0])
  })

  it('gets several answers to one prompt, each sampled with the next seed; the prompt counts once', async () => {
    const request = { model: 'brim', messages, max_tokens: 8, temperature: 0.8, seed: 42, n: 3 }
    const { choices, usage } = await openai.chat.completions.create(request)
    const sampling = { temperature: 0.8, topK: 0, topP: 1 }
    for (const [index, { message }] of choices.entries())
      expect(message.content).toBe(reference.textOf(await reference.answer(chatIds, { ...sampling, seed: 42 + index }, 8)))
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(usage!.prompt_tokens).toBe(chatIds.length)
    const contents = ['', '', '']
    const roles: number[] = []
    for await (const { choices: pieces } of await openai.chat.completions.create({ ...request, stream: true }))
      for (const { index, delta } of pieces) {
        if (delta.role) roles.push(index)
        contents[index] += delta.content ?? ''
      }
    expect([contents, roles]).toEqual([choices.map(({ message }) => message.content), [0, 1, 2]])
  })

  it('continues a conversation in which the assistant has called a tool', async () => {
    const call = { id: 'call_1', type: 'function' as const, function: { name: 'level', arguments: '{"river":"Aare"}' } }
    const conversation = [
      ...messages,
      { role: 'assistant' as const, content: null, tool_calls: [call] },
      { role: 'tool' as const, tool_call_id: 'call_1', content: '503 m' },
    ]
    const template = await loadChatTemplate(join(world.bundle, tokenizerFolder))
    const prompt = template!.render(conversation as never)
    expect(prompt).toMatch(/"name": "level".*"river": "Aare"/)
    const ids = reference.tokenizer.encode(prompt, { addSpecialTokens: false })
    const options = { model: 'brim', max_tokens: 8, temperature: 0, messages: conversation }
    const answer = await openai.chat.completions.create(options)
    expect(answer.choices[0]!.message.content).toBe(reference.textOf(await reference.answer(ids, greedy, 8)))
  })

  it('samples as the reference does with a seed, and differently each time without one', async () => {
    const sampling = { temperature: 0.8, topK: 0, topP: 0.95, seed: 42 }
    const expected = reference.textOf(await reference.answer(chatIds, sampling, 12))
    const ask = async (seed?: number) => {
      const settings = { temperature: 0.8, top_p: 0.95, max_tokens: 12, ...(seed === undefined ? {} : { seed }) }
      return (await openai.chat.completions.create({ model: 'brim', messages, ...settings })).choices[0]!.message.content
    }
    expect(await ask(42)).toBe(expected)
    expect(new Set([await ask(), await ask(), await ask()]).size).toBe(3)
  })

  it('samples with penalties and min_p as the reference does, and reports log probabilities, whole and streamed', async () => {
    const sampling = { temperature: 0.8, topK: 0, topP: 1, minP: 0.01, presencePenalty: 0.4, frequencyPenalty: 0.9, seed: 42 }
    const ids = await reference.answer(chatIds, sampling, 12)
    const request = {
      model: 'brim',
      messages,
      max_tokens: 12,
      temperature: 0.8,
      seed: 42,
      presence_penalty: 0.4,
      frequency_penalty: 0.9,
      ...{ min_p: 0.01 },
      logprobs: true,
      top_logprobs: 2,
    }
    const { choices } = await openai.chat.completions.create(request)
    const { content } = choices[0]!.logprobs!
    expect(choices[0]!.message.content).toBe(reference.textOf(ids))
    expect(Buffer.from(content!.flatMap(({ bytes }) => bytes!)).toString()).toBe(reference.textOf(ids))
    expect(content).toHaveLength(12)
    for (const { token, bytes, logprob, top_logprobs: top } of content!) {
      expect(Buffer.from(bytes!).toString()).toBe(token)
      expect(top).toHaveLength(2)
      expect(top[0]!.logprob).toBeGreaterThanOrEqual(Math.max(top[1]!.logprob, logprob))
    }
    const streamed = []
    for await (const chunk of await openai.chat.completions.create({ ...request, stream: true }))
      streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []))
    expect(streamed.map(({ token }) => token)).toEqual(content!.map(({ token }) => token))
    for (const [at, { logprob }] of streamed.entries()) expect(logprob).toBeCloseTo(content![at]!.logprob, 3)
  })

  it('reports the log probabilities of a completion with the offset of each token', async () => {
    const request = { model: 'brim', prompt: 'The old mill', max_tokens: 6, temperature: 0, logprobs: 2 }
    const { choices } = await openai.completions.create(request)
    const { text } = choices[0]!
    const { tokens, token_logprobs: scores, top_logprobs: tops, text_offset: offsets } = choices[0]!.logprobs!
    expect(tokens!.join('').trimStart()).toBe(text.trimStart())
    expect(offsets).toEqual(tokens!.map((_, at) => tokens!.slice(0, at).join('').length))
    for (const [at, top] of tops!.entries()) expect(Math.max(...Object.values(top))).toBeCloseTo(scores![at]!, 6)
    const streamed: number[] = []
    for await (const chunk of await openai.completions.create({ ...request, stream: true }))
      streamed.push(...(chunk.choices[0]?.logprobs?.text_offset ?? []))
    expect(streamed).toEqual(offsets)
  })

  it('stops before a stop string', async () => {
    const full = reference.textOf(await reference.answer(chatIds, greedy, 24))
    const stop = full.slice(4, 6)
    const answer = await openai.chat.completions.create({ model: 'brim', messages, max_tokens: 24, temperature: 0, stop })
    expect(answer.choices[0]).toMatchObject({ message: { content: full.slice(0, full.indexOf(stop)) }, finish_reason: 'stop' })
    expect(answer.usage!.completion_tokens).toBeLessThan(24)
  })

  it('sends text in parts, lists the model, and gets concurrent answers', async () => {
    const inParts = [{ role: 'user' as const, content: [{ type: 'text' as const, text: messages[0]!.content }] }]
    const options = { model: 'brim', max_tokens: 8, temperature: 0 }
    const answers = await Promise.all([
      openai.chat.completions.create({ ...options, messages }),
      openai.chat.completions.create({ ...options, messages: inParts }),
      openai.chat.completions.create({ ...options, messages }),
    ])
    const expected = reference.textOf(await reference.answer(chatIds, greedy, 8))
    expect(answers.map((answer) => answer.choices[0]!.message.content)).toEqual([expected, expected, expected])
    const model = { object: 'model', owned_by: 'brim' }
    expect((await openai.models.list()).data).toMatchObject([
      { id: 'tiny-llama', ...model },
      { id: 'brim', ...model },
    ])
    for (const id of ['tiny-llama', 'brim']) expect((await openai.models.retrieve(id)).id).toBe(id)
  })

  it('recognises errors by status, code and type', async () => {
    const wrong = openai.chat.completions.create({ model: 'gpt-none', messages })
    await expect(wrong).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
      type: 'invalid_request_error',
    })
    await expect(wrong).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })
})

describe('a request that cannot be served', () => {
  const chat = (fields: object) => ['/v1/chat/completions', { messages, ...fields }] as const
  it.each([
    ['no JSON', '/v1/chat/completions', '{', 400, 'REQUEST_INVALID', null],
    ['no object', '/v1/chat/completions', '[]', 400, 'REQUEST_INVALID', ''],
    ['no messages', '/v1/chat/completions', {}, 400, 'REQUEST_INVALID', 'messages'],
    ['empty messages', '/v1/chat/completions', { messages: [] }, 400, 'REQUEST_INVALID', 'messages'],
    [
      'an image',
      ...chat({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }),
      400,
      'REQUEST_INVALID',
      'messages.0.content.0.type',
    ],
    ['no answers', ...chat({ n: 0 }), 400, 'REQUEST_INVALID', 'n'],
    ['more answers than the limit', ...chat({ n: 129 }), 400, 'REQUEST_INVALID', 'n'],
    [
      'more prompts than the limit',
      '/v1/completions',
      { prompt: Array.from({ length: 129 }, () => 'x') },
      400,
      'REQUEST_INVALID',
      'prompt',
    ],
    [
      'a tool call without a name',
      ...chat({ messages: [{ role: 'assistant', content: null, tool_calls: [{ function: {} }] }] }),
      400,
      'REQUEST_INVALID',
      'messages.0.tool_calls.0',
    ],
    ['no prompts', '/v1/completions', { prompt: [] }, 400, 'REQUEST_INVALID', 'prompt'],
    ['prompts of two kinds', '/v1/completions', { prompt: ['x', 5] }, 400, 'REQUEST_INVALID', 'prompt.1'],
    ['logit_bias', ...chat({ logit_bias: { 5: 100 } }), 400, 'REQUEST_INVALID', 'logit_bias'],
    ['likeliest tokens without log probabilities', ...chat({ top_logprobs: 3 }), 400, 'REQUEST_INVALID', 'top_logprobs'],
    ['too many likeliest tokens', ...chat({ logprobs: true, top_logprobs: 21 }), 400, 'REQUEST_INVALID', 'top_logprobs'],
    ['too high a penalty', ...chat({ frequency_penalty: 2.5 }), 400, 'REQUEST_INVALID', 'frequency_penalty'],
    ['a min_p above 1', ...chat({ min_p: 1.5 }), 400, 'REQUEST_INVALID', 'min_p'],
    ['a rate below 0', ...chat({ brim: { tokens_per_s: -1 } }), 400, 'REQUEST_INVALID', 'brim.tokens_per_s'],
    ['a rate of 10⁹', ...chat({ brim: { tokens_per_s: 1e9 } }), 400, 'REQUEST_INVALID', 'brim.tokens_per_s'],
    ['a forced tool', ...chat({ tool_choice: 'required' }), 400, 'REQUEST_INVALID', 'tool_choice'],
    ['echo', '/v1/completions', { prompt: 'x', echo: true }, 400, 'REQUEST_INVALID', 'echo'],
    ['a suffix', '/v1/completions', { prompt: 'x', suffix: 'y' }, 400, 'REQUEST_INVALID', 'suffix'],
    ['tools', ...chat({ tools: [{ type: 'function' }] }), 400, 'REQUEST_INVALID', 'tools.0.function'],
    ['a temperature below 0', ...chat({ temperature: -1 }), 400, 'REQUEST_INVALID', 'temperature'],
    ['no tokens', ...chat({ max_tokens: 0 }), 400, 'REQUEST_INVALID', 'max_tokens'],
    ['an unknown model', ...chat({ model: 'other' }), 404, 'model_not_found', 'model'],
    ['more than the context holds', ...chat({ max_tokens: 600 }), 400, 'context_length_exceeded', null],
    [
      'a prompt longer than the context',
      '/v1/completions',
      { prompt: Array.from({ length: 513 }, () => 5) },
      400,
      'context_length_exceeded',
      null,
    ],
    ['a token that does not exist', '/v1/completions', { prompt: [5, 999_999] }, 400, 'REQUEST_INVALID', null],
    ['a prompt that is an object', '/v1/completions', { prompt: { text: 'x' } }, 400, 'REQUEST_INVALID', 'prompt'],
    ['an unknown path', '/v1/embeddings', {}, 404, 'REQUEST_INVALID', null],
    ['a path that is only read', '/v1/models', {}, 405, 'REQUEST_INVALID', null],
  ])('is rejected before any work: %s', async (_, path, body, status, code, param) => {
    const answer = await post(path, body)
    expect(answer).toEqual({
      status,
      body: { error: expect.objectContaining({ code, param, type: 'invalid_request_error', message: expect.any(String) }) },
    })
    expect(await world.bridgeHealth()).toMatchObject({ sessions: 0, kvBytes: 0 })
  })

  it('names the methods of a path, and answers HEAD as GET', async () => {
    const posted = await fetch(`${world.agent.apiUrl}/v1/chat/completions`)
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'POST'])
    expect((await fetch(`${world.agent.apiUrl}/v1/models`, { method: 'HEAD' })).status).toBe(200)
  })

  it('may begin with a message of the developer', async () => {
    const ask = async (role: string) => {
      const messages = [
        { role, content: 'Be brief.' },
        { role: 'user', content: 'hello' },
      ]
      const { status, body } = await post('/v1/chat/completions', { messages, max_tokens: 2, temperature: 0 })
      const { choices, usage } = body as unknown as { choices: { message: unknown }[]; usage: { prompt_tokens: number } }
      return [status, choices[0]?.message, usage.prompt_tokens]
    }
    expect(await ask('developer')).toEqual(await ask('system'))
  })

  it('is served when unsupported fields have neutral values', async () => {
    const harmless = {
      n: 1,
      tools: [],
      logit_bias: {},
      presence_penalty: 0,
      response_format: { type: 'text' },
      seed: null,
      user: 'me',
    }
    expect((await post(...chat({ max_tokens: 2, ...harmless }))).status).toBe(200)
  })

  it.each([
    [{ logit_bias: { 5: 1 } }, '"logit_bias" is not supported, except {}', /presence_penalty, frequency_penalty, seed and stop/],
  ])('is rejected with what is supported: %j', async (fields, message, hint) => {
    const { body } = await post(...chat(fields))
    expect(body.error).toMatchObject({ message, hint: expect.stringMatching(hint) })
  })

  it.each([
    ['a Host that is another name (DNS rebinding)', { host: 'evil.example:7071' }],
    ['the Origin of another site', { origin: 'https://evil.example' }],
    ['an opaque Origin', { origin: 'null' }],
    ["a name that only starts with the API's address", { host: '127.0.0.1.evil.example' }],
  ])('is rejected with %s', async (_, headers) => {
    const { port } = new URL(world.agent.apiUrl)
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest({ host: '127.0.0.1', port, path: '/v1/models', headers }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      request.on('error', reject)
      request.end()
    })
    expect(status).toBe(403)
  })

  it('is served from a page of this machine', async () => {
    const response = await fetch(`${world.agent.apiUrl}/v1/models`, { headers: { origin: 'http://localhost:3000' } })
    expect(response.status).toBe(200)
  })

  it('names the paths that exist, such as without /v1 in the base URL', async () => {
    const { body } = await post('/chat/completions', { messages })
    expect(body.error).toMatchObject({ hint: expect.stringContaining('POST /v1/chat/completions') })
  })

  it('is served without a content type, as JSON', async () => {
    const { port } = new URL(world.agent.apiUrl)
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest({ host: '127.0.0.1', port, path: '/v1/completions', method: 'POST' }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      request.on('error', reject)
      request.end(JSON.stringify({ prompt: 'x', max_tokens: 1 }))
    })
    expect(status).toBe(200)
  })

  it('is rejected as plain text, which browsers send across sites without a preflight', async () => {
    expect((await post('/v1/completions', '{"prompt":"x"}', { 'content-type': 'text/plain' })).status).toBe(415)
  })
})

describe('a client that disconnects', () => {
  it.each([true, false])('stops the session on both sides (stream: %s)', async (stream) => {
    const leaving = new AbortController()
    const request = postJson(
      `${world.agent.apiUrl}/v1/completions`,
      { prompt: [5, 6, 7], max_tokens: 500, temperature: 0, stream },
      {},
      leaving.signal,
    )
    if (stream) await (await request).body!.getReader().read()
    else await expect.poll(async () => (await world.bridgeHealth()).sessions).toBe(1)
    leaving.abort()
    if (!stream) await expect(request).rejects.toThrow()
    await expect.poll(async () => (await world.bridgeHealth()).sessions).toBe(0)
    const { kvBytes, serving } = await world.bridgeHealth()
    expect(kvBytes).toBe(0)
    // Another answer of one token takes one step, and the abandoned one takes none meanwhile.
    expect((await post('/v1/completions', { prompt: [5, 6, 7], max_tokens: 1 })).status).toBe(200)
    expect((await world.bridgeHealth()).serving.items).toBe(serving.items + 1)
  })
})

describe('a response', () => {
  const send = (body: object, headers: Record<string, string> = {}, path = '/v1/chat/completions') =>
    postJson(`${world.agent.apiUrl}${path}`, body, headers)

  it("has an id of its own or of the client's, whole, streamed, failed or unknown", async () => {
    const asked = { messages, max_tokens: 2 }
    const requests: [object, string?][] = [[asked], [{ ...asked, stream: true }], [{ messages: [] }], [asked, '/v1/other']]
    const ids: (string | null)[] = []
    for (const [body, path] of requests) {
      const response = await send(body, {}, path)
      await response.text()
      ids.push(response.headers.get('x-request-id'))
      const own = await send(body, { 'x-request-id': 'trace-1' }, path)
      await own.text()
      expect(own.headers.get('x-request-id')).toBe('trace-1')
    }
    expect(ids).toEqual(requests.map(() => expect.stringMatching(/^req_[0-9a-f-]{36}$/)))
    expect(new Set(ids).size).toBe(requests.length)
    const forged = await send(asked, { 'x-request-id': 'a b\tc' })
    expect(forged.headers.get('x-request-id')).toMatch(/^req_/)
    const { _request_id } = await openai.chat.completions.create({ model: 'brim', ...asked })
    expect(_request_id).toMatch(/^req_/)
  })

  it.each([true, false])('names the fields that had no effect, once (stream: %s)', async (stream) => {
    const known = { n: 1, tools: [], user: 'me', seed: 1, top_k: 5, stream, max_tokens: 2 }
    const ignored = async (fields: object) => {
      const response = await send({ messages, ...known, ...fields })
      await response.text()
      expect(response.status).toBe(200)
      return response.headers.get('x-brim-ignored')
    }
    expect(await ignored({ brim: { token_ids: true }, stream_options: { include_usage: true } })).toBeNull()
    expect(await ignored({ store: true, reasoning_effort: 'low', brim: { fallbak: 'slm' }, stream_options: { x: 1 } })).toBe(
      'store, reasoning_effort, brim.fallbak, stream_options.x',
    )
    expect(await ignored({ 'a\r\nset-cookie: b': 1, constructor: 2 })).toBe('a??set-cookie??b, constructor')
    const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`field${at}${'x'.repeat(100)}`, at]))
    expect((await ignored(many))!.length).toBeLessThan(1_200)
  })
})
